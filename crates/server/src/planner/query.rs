//! The fields of a form, as a browser without a script sends them.

use super::PlanRequest;

/// More than the fields of the form.
const FIELDS_MAX: usize = 200;

/// Returns the fields in their order; invalid UTF-8 is replaced.
pub(super) fn fields(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .take(FIELDS_MAX)
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key), decoded(value))
        })
        .collect()
}

/// Returns the plan that the fields describe; `None` without fields: the form was not submitted.
pub(super) fn wanted(fields: &[(String, String)]) -> Option<PlanRequest> {
    let mut wanted = PlanRequest::default();
    if fields.is_empty() {
        return None;
    }
    for (key, value) in fields {
        let value = value.trim();
        match key.as_str() {
            _ if value.is_empty() => {}
            "scenario" if value == super::form::OWN => {}
            "scenario" => wanted.scenario = Some(value.to_owned()),
            "toml" => wanted.toml = Some(value.to_owned()),
            _ => wanted.set.push(format!("{key}={value}")),
        }
    }
    Some(wanted)
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let ahead = rest.clone().take(2).collect::<Vec<_>>();
                let code = std::str::from_utf8(&ahead).ok();
                let code = code.filter(|code| code.len() == 2);
                match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
                    Some(code) => {
                        bytes.push(code);
                        rest.nth(1);
                    }
                    None => bytes.push(b'%'),
                }
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_as_browsers_send_it() {
        let fields = fields("scenario=burst&load.peak=4+GB%2Fs&load.base=&x=%zz%4");
        assert_eq!(fields.len(), 4);
        assert_eq!(fields[3].1, "%zz%4");
        let wanted = wanted(&fields).unwrap();
        assert_eq!(wanted.scenario.as_deref(), Some("burst"));
        assert_eq!(wanted.set, ["load.peak=4 GB/s", "x=%zz%4"]);
        assert!(super::wanted(&super::fields("")).is_none());
    }
}
