//! Decodes telemetry that clients push (KIP-714): metrics in OpenTelemetry's protobuf encoding.
//!
//! The decoder keeps the name, attributes and value of each point of sums and gauges. It skips
//! unknown fields, and histograms and summaries, which Kafka's clients do not send.
//! Invariant: any bytes give samples or an error. [`Bounds`] limits memory and time, independently
//! of the numbers and lengths in the bytes.

use std::cell::Cell;

/// One value of one metric.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Name of the metric, with dots as the client sent it.
    pub name: String,
    /// Attributes that distinguish samples of the same name: `key=value`, in the order sent,
    /// separated by commas.
    pub attributes: String,
    /// The value.
    pub value: f64,
    /// True when the value is the increase since the last push, to be added up.
    pub is_delta: bool,
}

/// The decoded samples of a push.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Samples {
    /// The samples within the bound.
    pub samples: Vec<Sample>,
    /// Number of samples beyond the bound, which are not decoded.
    pub beyond: usize,
}

/// Limits for the decoding of one push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Samples to decode; further samples are only counted.
    pub samples: usize,
    /// Bytes of a metric name; a longer name is an error.
    pub name_bytes: usize,
    /// Bytes of a sample's attributes in their text form; more is an error.
    pub attributes_bytes: usize,
    /// Protobuf fields to read; more is an error.
    pub fields: usize,
}

/// The bytes are not metrics, or exceed a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not OpenTelemetry metrics: {0}")]
pub struct TelemetryError(&'static str);

type Result<T> = std::result::Result<T, TelemetryError>;

/// Decodes the samples of a decompressed push.
pub fn samples(bytes: &[u8], bounds: Bounds) -> Result<Samples> {
    let mut found = FoundSamples {
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

struct FoundSamples {
    bounds: Bounds,
    samples: Samples,
}

impl FoundSamples {
    fn take_metric(&mut self, metric: Message<'_>) -> Result<()> {
        const NAME: u32 = 1;
        const GAUGE: u32 = 5;
        const SUM: u32 = 7;
        // The name may follow the points, so it needs a pass of its own.
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

/// Returns true for a sum with delta temporality: it counts from the last push.
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

/// Returns the attributes and the value of a point; `None` for a point without a value.
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

/// Appends `key=value` to the attributes of a point.
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
    // A value has one of these forms.
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

/// A protobuf message, with the number of fields that may still be read in the whole push.
#[derive(Clone, Copy)]
struct Message<'a> {
    bytes: &'a [u8],
    left: &'a Cell<usize>,
}

/// The value of a field, by its wire type.
enum Value<'a> {
    Number(u64),
    Fixed(u64),
    Message(Message<'a>),
}

impl<'a> Message<'a> {
    fn fields(self) -> Fields<'a> {
        Fields(self)
    }

    /// Calls `visit` with each message in the fields numbered `wanted`.
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

/// The unread fields of a message.
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
                // A length that does not fit in `usize` is longer than the rest.
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
