//! What clients push as telemetry (KIP-714): metrics in OpenTelemetry's protobuf encoding, as plain samples.
//!
//! Only what is kept is decoded: name, attributes and value of the points of sums and gauges. Histograms and
//! summaries, which Kafka's clients do not send, are passed over, and so are fields that are not known.
//! Total: any bytes give samples or an error, and take memory in proportion to their length.

/// One value of one metric.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Name of the metric, with the client's dots.
    pub name: String,
    /// What tells it from others of that name.
    pub attributes: Vec<(String, String)>,
    /// The value.
    pub value: f64,
    /// True for an amount since the last push, to be added up.
    pub is_delta: bool,
}

/// The bytes are no metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not OpenTelemetry metrics: {0}")]
pub struct TelemetryError(&'static str);

type Result<T> = std::result::Result<T, TelemetryError>;

/// The samples of a push, decompressed; more than `samples_max` are not decoded.
pub fn samples(bytes: &[u8], samples_max: usize) -> Result<Vec<Sample>> {
    let mut found = Vec::new();
    // MetricsData -> ResourceMetrics -> ScopeMetrics -> Metric
    for_each(bytes, 1, |resource| {
        for_each(resource, 2, |scope| {
            for_each(scope, 2, |metric| {
                metric_samples(metric, samples_max, &mut found)
            })
        })
    })?;
    Ok(found)
}

fn metric_samples(metric: &[u8], samples_max: usize, found: &mut Vec<Sample>) -> Result<()> {
    const GAUGE: u32 = 5;
    const SUM: u32 = 7;
    let mut name = String::new();
    let mut points: Vec<(u32, &[u8])> = Vec::new();
    let mut fields = Fields(metric);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Bytes(bytes)) => name = text(bytes)?,
            (GAUGE | SUM, Value::Bytes(bytes)) => points.push((number, bytes)),
            _ => {}
        }
    }
    for (kind, body) in points {
        let mut is_delta = false;
        let mut fields = Fields(body);
        while let Some((number, value)) = fields.next()? {
            // AggregationTemporality: 1 is delta.
            if let (SUM, 2, Value::Number(temporality)) = (kind, number, value) {
                is_delta = temporality == 1;
            }
        }
        for_each(body, 1, |point| {
            if found.len() < samples_max
                && let Some((attributes, value)) = point_value(point)?
            {
                found.push(Sample {
                    name: name.clone(),
                    attributes,
                    value,
                    is_delta,
                });
            }
            Ok(())
        })?;
    }
    Ok(())
}

type Point = (Vec<(String, String)>, f64);

/// Attributes and value of a point; `None` for one without a value.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    reason = "a count beyond 2^53 is shown as nearly that; the bits are those of a signed number"
)]
fn point_value(point: &[u8]) -> Result<Option<Point>> {
    const AS_DOUBLE: u32 = 4;
    const AS_INT: u32 = 6;
    const ATTRIBUTES: u32 = 7;
    let (mut attributes, mut value) = (Vec::new(), None);
    let mut fields = Fields(point);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (AS_DOUBLE, Value::Fixed(bits)) => value = Some(f64::from_bits(bits)),
            (AS_INT, Value::Fixed(bits)) => value = Some(bits as i64 as f64),
            (ATTRIBUTES, Value::Bytes(bytes)) => attributes.push(attribute(bytes)?),
            _ => {}
        }
    }
    Ok(value.map(|value| (attributes, value)))
}

/// A key and its value, shown as text.
#[allow(
    clippy::cast_possible_wrap,
    reason = "the bits are those of a signed number"
)]
fn attribute(pair: &[u8]) -> Result<(String, String)> {
    let (mut key, mut shown) = (String::new(), String::new());
    let mut fields = Fields(pair);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Value::Bytes(bytes)) => key = text(bytes)?,
            (2, Value::Bytes(any)) => {
                let mut fields = Fields(any);
                while let Some((number, field)) = fields.next()? {
                    match (number, field) {
                        (1, Value::Bytes(bytes)) => shown = text(bytes)?,
                        (2, Value::Number(bit)) => shown = (bit != 0).to_string(),
                        (3, Value::Number(bits)) => shown = (bits as i64).to_string(),
                        (4, Value::Fixed(bits)) => shown = f64::from_bits(bits).to_string(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok((key, shown))
}

/// Calls `visit` with each message in the field of that number.
fn for_each<'a>(
    message: &'a [u8],
    wanted: u32,
    mut visit: impl FnMut(&'a [u8]) -> Result<()>,
) -> Result<()> {
    let mut fields = Fields(message);
    while let Some((number, value)) = fields.next()? {
        if let (true, Value::Bytes(bytes)) = (number == wanted, value) {
            visit(bytes)?;
        }
    }
    Ok(())
}

fn text(bytes: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(bytes).map_err(|_| TelemetryError("text that is not UTF-8"))?;
    Ok(text.to_owned())
}

/// A field's value, by its wire type.
enum Value<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message that are left.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<(u32, Value<'a>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| TelemetryError("a field's number"))?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Fixed(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed(u64::from(u32::from_le_bytes(self.fixed()?))),
            _ => return Err(TelemetryError("a field's type")),
        };
        Ok(Some((number, value)))
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.fixed()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(TelemetryError("a number that does not end"))
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| TelemetryError("a cut field"))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(TelemetryError("a field longer than the rest"))?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(number: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2];
        let mut length = body.len();
        while length >= 0x80 {
            bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        bytes.push(u8::try_from(length).unwrap());
        bytes.extend(body);
        bytes
    }

    fn fixed(number: u8, bits: u64) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 1];
        bytes.extend(bits.to_le_bytes());
        bytes
    }

    fn push(metrics: &[Vec<u8>]) -> Vec<u8> {
        let metrics: Vec<u8> = metrics
            .iter()
            .flat_map(|metric| message(2, metric))
            .collect();
        message(1, &message(2, &metrics))
    }

    #[test]
    fn sums_and_gauges_are_read_and_the_rest_is_passed_over() {
        let topic = [message(1, b"topic"), message(2, &message(1, b"t"))].concat();
        let point = [fixed(3, 7), message(7, &topic), fixed(6, 12)].concat();
        // 2: aggregation temporality, delta.
        let sum = [message(1, &point), vec![2 << 3, 1]].concat();
        let total = [
            message(1, b"records.total"),
            message(3, b"1"),
            message(7, &sum),
        ]
        .concat();
        let gauge = message(1, &fixed(4, 0.5_f64.to_bits()));
        let lag = [message(1, b"lag"), message(5, &gauge)].concat();
        let histogram = [message(1, b"h"), message(9, &gauge)].concat();
        let bytes = push(&[total, histogram, lag]);
        let found = samples(&bytes, 10).unwrap();
        let expected = [
            Sample {
                name: "records.total".into(),
                attributes: vec![("topic".into(), "t".into())],
                value: 12.0,
                is_delta: true,
            },
            Sample {
                name: "lag".into(),
                attributes: Vec::new(),
                value: 0.5,
                is_delta: false,
            },
        ];
        assert_eq!(found, expected);
        assert_eq!(samples(&bytes, 1).unwrap().len(), 1);
        assert_eq!(samples(&[], 1), Ok(Vec::new()));
        for cut in 1..bytes.len() {
            assert!(samples(&bytes[..cut], 10).is_err(), "{cut}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let found = samples(&bytes, 50).map_or(0, |found| found.len());
            prop_assert!(found <= 50);
        }
    }
}
