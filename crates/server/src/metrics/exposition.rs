//! The metrics as a page, in the format that the client asks for: `OpenMetrics`, or Prometheus'
//! older text format, which all agents read.
//!
//! The registry writes `OpenMetrics`; the older format differs in names and words of types only,
//! so it is rewritten from that, family by family. Values that dashboards ask for under further
//! names (`aliases.rs`) are written once more under those. Invariant: each name has one type, and
//! its samples stand together. Not here: what is measured.

mod aliases;

use std::fmt::Write as _;

pub use aliases::ALIASES;

/// The media type of `OpenMetrics`.
const OPEN_METRICS: &str = "application/openmetrics-text";

/// A format of the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Prometheus' text format 0.0.4.
    Text,
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Returns the format for a client that sent these `Accept` headers: `OpenMetrics` if it names
    /// that and does not prefer plain text.
    pub fn wanted<'a>(accept: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut open, mut text) = (0.0, 0.0);
        for range in accept.into_iter().flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let quality = match parts.next() {
                Some(kind) if kind.eq_ignore_ascii_case(OPEN_METRICS) => &mut open,
                Some(kind) if kind.eq_ignore_ascii_case("text/plain") => &mut text,
                _ => continue,
            };
            let said = parts.find_map(|part| part.strip_prefix("q="));
            let said = said.map_or(1.0, |said| said.parse().unwrap_or(0.0));
            *quality = f64::max(*quality, said);
        }
        if open > 0.0 && open >= text {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// Returns the value of `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A family of samples, as the registry writes it.
#[derive(Clone, Copy)]
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    /// The lines of the samples, each with its end.
    samples: &'a str,
}

impl<'a> Family<'a> {
    /// Reads a family from its text without the first `# HELP `.
    fn parse(text: &'a str) -> Option<Self> {
        let (first, rest) = text.split_once('\n')?;
        let (name, help) = first.split_once(' ')?;
        let (second, mut samples) = rest.split_once('\n')?;
        let kind = second.strip_prefix("# TYPE ")?.strip_prefix(name)?.trim();
        if samples.starts_with("# UNIT ") {
            samples = samples.split_once('\n')?.1;
        }
        Some(Self {
            name,
            help,
            kind,
            samples,
        })
    }

    /// Returns what samples add to the name of the family.
    fn ending(&self) -> &'static str {
        match self.kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        }
    }

    /// Writes the family.
    fn write(&self, format: Format, page: &mut String) {
        let (ending, kind) = match (format, self.kind) {
            (Format::OpenMetrics, kind) => ("", kind),
            (Format::Text, "info") => (self.ending(), "gauge"),
            (Format::Text, "unknown") => ("", "untyped"),
            (Format::Text, kind) => (self.ending(), kind),
        };
        head(page, &format!("{}{ending}", self.name), self.help, kind);
        page.push_str(self.samples);
    }

    /// Writes the samples once more, under another name.
    fn write_as(&self, theirs: &str, format: Format, page: &mut String) {
        // A counter is called by its name without the ending, under which others may ask for it.
        let is_taken = |name: &str| ALIASES.iter().any(|(other, _)| *other == name);
        let kind = match (self.kind, theirs.strip_suffix("_total")) {
            ("counter", Some(name)) if !is_taken(name) => "counter",
            ("gauge", _) => "gauge",
            _ => "unknown",
        };
        let ours = format!("{}{}", self.name, self.ending());
        let family = match kind {
            "counter" => theirs.strip_suffix("_total").unwrap_or(theirs),
            _ => theirs,
        };
        let mut samples = String::with_capacity(self.samples.len());
        for line in self.samples.lines() {
            if let Some(rest) = line.strip_prefix(&ours) {
                let _ = writeln!(samples, "{theirs}{rest}");
            }
        }
        let renamed = Family {
            name: family,
            help: &format!("The same as {ours}."),
            kind,
            samples: &samples,
        };
        renamed.write(format, page);
    }
}

fn head(page: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Returns the page for the text of the registry, which is `OpenMetrics`.
pub fn page(registry: &str, format: Format) -> String {
    let mut page = String::with_capacity(registry.len().saturating_mul(2));
    let families = registry.trim_end_matches("# EOF\n");
    // A label's value has no line feed, so only the head of a family begins so.
    let families = families
        .strip_prefix("# HELP ")
        .into_iter()
        .flat_map(|families| families.split("\n# HELP "));
    for text in families {
        // The split has taken the last line feed of all families but the last one.
        let text = format!("{}\n", text.trim_end_matches('\n'));
        let Some(family) = Family::parse(&text) else {
            continue;
        };
        family.write(format, &mut page);
        let ours = format!("{}{}", family.name, family.ending());
        for (theirs, of) in ALIASES {
            if *of == ours {
                family.write_as(theirs, format, &mut page);
            }
        }
    }
    if format == Format::OpenMetrics {
        page.push_str("# EOF\n");
    }
    page
}

#[cfg(test)]
mod tests;
