//! What clients push as telemetry (KIP-714): metrics in OpenTelemetry's protobuf encoding, as plain samples.
//!
//! Only what is kept is decoded: name, attributes and value of the points of sums and gauges. Histograms and
//! summaries, which Kafka's clients do not send, are passed over, and so are fields that are not known.
//! Total: any bytes give samples or an error. [`Bounds`] holds what they come to: no number or length in the bytes makes
//! more of them, in memory or in time.

use std::cell::Cell;

/// One value of one metric.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Name of the metric, with the client's dots.
    pub name: String,
    /// What tells it from others of that name: `key=value`, in their order, commas between.
    pub attributes: String,
    /// The value.
    pub value: f64,
    /// True for an amount since the last push, to be added up.
    pub is_delta: bool,
}

/// The samples of a push.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Samples {
    /// Those within the bound.
    pub samples: Vec<Sample>,
    /// How many were beyond it, and were not decoded.
    pub beyond: usize,
}

/// What a push may come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Samples; the others are counted only.
    pub samples: usize,
    /// Bytes of a name; longer is an error.
    pub name_bytes: usize,
    /// Bytes of the attributes of a sample, as they are shown; longer is an error.
    pub attributes_bytes: usize,
    /// Fields that are looked at; more is an error.
    pub fields: usize,
}

/// The bytes are no metrics, or more than is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not OpenTelemetry metrics: {0}")]
pub struct TelemetryError(&'static str);

type Result<T> = std::result::Result<T, TelemetryError>;

/// The samples of a push, decompressed.
pub fn samples(bytes: &[u8], bounds: Bounds) -> Result<Samples> {
    let mut found = Found {
        bounds,
        samples: Samples::default(),
    };
    let left = Cell::new(bounds.fields);
    let push = Message { bytes, left: &left };
    // MetricsData -> ResourceMetrics -> ScopeMetrics -> Metric
    push.for_each(1, |resource| {
        resource.for_each(2, |scope| {
            scope.for_each(2, |metric| found.take_metric(metric))
        })
    })?;
    assert!(
        found.samples.samples.len() <= bounds.samples,
        "no number in the bytes makes more samples than the bound"
    );
    Ok(found.samples)
}

struct Found {
    bounds: Bounds,
    samples: Samples,
}

impl Found {
    fn take_metric(&mut self, metric: Message<'_>) -> Result<()> {
        const NAME: u32 = 1;
        const GAUGE: u32 = 5;
        const SUM: u32 = 7;
        // The name may come behind the points.
        let mut name = "";
        let mut fields = metric.fields();
        while let Some((number, value)) = fields.next()? {
            if let (NAME, Value::Message(text)) = (number, value) {
                name = text.text()?;
            }
        }
        if name.len() > self.bounds.name_bytes {
            return Err(TelemetryError("a name that is too long"));
        }
        let mut fields = metric.fields();
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (GAUGE, Value::Message(body)) => self.take_points(name, body, false)?,
                (SUM, Value::Message(body)) => self.take_points(name, body, is_delta(body)?)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn take_points(&mut self, name: &str, body: Message<'_>, is_delta: bool) -> Result<()> {
        body.for_each(1, |point| {
            if self.samples.samples.len() >= self.bounds.samples {
                self.samples.beyond = self.samples.beyond.saturating_add(1);
                return Ok(());
            }
            if let Some((attributes, value)) = point_value(point, self.bounds.attributes_bytes)? {
                self.samples.samples.push(Sample {
                    name: name.to_owned(),
                    attributes,
                    value,
                    is_delta,
                });
            }
            Ok(())
        })
    }
}

/// True for a sum that counts from the last push.
fn is_delta(sum: Message<'_>) -> Result<bool> {
    const TEMPORALITY: u32 = 2;
    let mut is_delta = false;
    let mut fields = sum.fields();
    while let Some((number, value)) = fields.next()? {
        if let (TEMPORALITY, Value::Number(temporality)) = (number, value) {
            is_delta = temporality == 1;
        }
    }
    Ok(is_delta)
}

/// Attributes and value of a point; `None` for one without a value.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    reason = "a count beyond 2^53 is shown as nearly that; the bits are those of a signed number"
)]
fn point_value(point: Message<'_>, attributes_bytes: usize) -> Result<Option<(String, f64)>> {
    const AS_DOUBLE: u32 = 4;
    const AS_INT: u32 = 6;
    const ATTRIBUTES: u32 = 7;
    let (mut attributes, mut value) = (String::new(), None);
    let mut fields = point.fields();
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (AS_DOUBLE, Value::Fixed(bits)) => value = Some(f64::from_bits(bits)),
            (AS_INT, Value::Fixed(bits)) => value = Some(bits as i64 as f64),
            (ATTRIBUTES, Value::Message(pair)) => {
                attribute(pair, &mut attributes, attributes_bytes)?;
            }
            _ => {}
        }
    }
    Ok(value.map(|value| (attributes, value)))
}

/// Adds `key=value` to the attributes of a point.
#[allow(
    clippy::cast_possible_wrap,
    reason = "the bits are those of a signed number"
)]
fn attribute(pair: Message<'_>, attributes: &mut String, bytes_max: usize) -> Result<()> {
    let (mut key, mut any): (_, Option<Message<'_>>) = ("", None);
    let mut fields = pair.fields();
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Value::Message(bytes)) => key = bytes.text()?,
            (2, Value::Message(value)) => any = Some(value),
            _ => {}
        }
    }
    let (mut shown, mut text) = (String::new(), "");
    if let Some(any) = any {
        let mut fields = any.fields();
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, Value::Message(bytes)) => text = bytes.text()?,
                (2, Value::Number(bit)) => shown = (bit != 0).to_string(),
                (3, Value::Number(bits)) => shown = (bits as i64).to_string(),
                (4, Value::Fixed(bits)) => shown = f64::from_bits(bits).to_string(),
                _ => {}
            }
        }
    }
    // A value has one of these.
    let value = if text.is_empty() { &shown } else { text };
    let length = [attributes.len(), key.len(), value.len(), 2];
    let length = length.into_iter().fold(0_usize, usize::saturating_add);
    if length > bytes_max {
        return Err(TelemetryError("attributes that are too long"));
    }
    if !attributes.is_empty() {
        attributes.push(',');
    }
    attributes.push_str(key);
    attributes.push('=');
    attributes.push_str(value);
    Ok(())
}

/// A message, and how many fields may still be looked at in all.
#[derive(Clone, Copy)]
struct Message<'a> {
    bytes: &'a [u8],
    left: &'a Cell<usize>,
}

/// A field's value, by its wire type.
enum Value<'a> {
    Number(u64),
    Fixed(u64),
    Message(Message<'a>),
}

impl<'a> Message<'a> {
    fn fields(self) -> Fields<'a> {
        Fields(self)
    }

    /// Calls `visit` with each message in the field of that number.
    fn for_each(self, wanted: u32, mut visit: impl FnMut(Self) -> Result<()>) -> Result<()> {
        let mut fields = self.fields();
        while let Some((number, value)) = fields.next()? {
            if let (true, Value::Message(message)) = (number == wanted, value) {
                visit(message)?;
            }
        }
        Ok(())
    }

    fn text(self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes).map_err(|_| TelemetryError("text that is not UTF-8"))
    }
}

/// The fields of a message that are left.
struct Fields<'a>(Message<'a>);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<(u32, Value<'a>)>> {
        if self.0.bytes.is_empty() {
            return Ok(None);
        }
        let left = self.0.left;
        let fewer = left.get().checked_sub(1);
        left.set(fewer.ok_or(TelemetryError("more fields than are read"))?);
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| TelemetryError("a field's number"))?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Fixed(u64::from_le_bytes(self.fixed()?)),
            2 => {
                // What does not fit is longer than the rest.
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                let bytes = self.take(length)?;
                Value::Message(Message { bytes, left })
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
            .bytes
            .split_at_checked(length)
            .ok_or(TelemetryError("a field longer than the rest"))?;
        self.0.bytes = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
