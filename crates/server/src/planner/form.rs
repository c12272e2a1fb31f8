//! The form as a page: the fields as the user filled them in, and the answer below. It works
//! without a script; the script only avoids loading the page again.

use std::fmt::Write as _;

use page::escape::html;
use page::frame::{Page, header};
use plan::answer::Plan;
use plan::load::SHIPPED;

const SCRIPT: &str = include_str!("form.js");
const STYLE: &str = include_str!("form.css");

/// The scenario that a user writes.
pub(super) const OWN: &str = "own";

/// Its initial text.
pub(super) const OWN_TEXT: &str = "name = \"own\"\nabout = \"A load of your own.\"\n[[load]]\nname = \"load\"\npeak = \"1 GB/s\"\nsize = \"10 KB\"\nbatch = \"256 KB\"\nretention = \"1 d\"\n";

/// The content below the form.
pub(super) enum FormResult<'a> {
    /// Nothing: the form was not submitted.
    Nothing,
    /// An answer.
    Plan(&'a Plan),
    /// Why there is no answer, and the field that is wrong.
    Problem(&'a str, Option<&'a str>),
}

/// A field: its key, its label, an example.
struct Field(&'static str, &'static str, &'static str);

/// The values of a scenario that can be changed; an empty field changes nothing.
const FIELDS: &[(&str, &[Field])] = &[
    (
        "Load",
        &[
            Field("load.peak", "peak", "8 GB/s"),
            Field("load.base", "between bursts", "100 MB/s"),
            Field("load.average", "over days", "400 MB/s"),
            Field("load.burst.length", "burst", "60 s"),
            Field("load.burst.interval", "burst every", "20 min"),
            Field("load.size", "record", "240 KB"),
            Field("load.batch", "batch", "960 KB"),
            Field("load.compression", "compression", "1"),
            Field("load.fan_out", "groups", "1"),
            Field("load.retention", "retention", "24 h"),
            Field("load.replication", "copies", "3"),
            Field("load.growth", "growth a year", "0.3"),
        ],
    ),
    (
        "Goals",
        &[
            Field("goals.survive", "survive", "1, 2, rack"),
            Field("goals.recovery", "recovery", "4 h"),
            Field("goals.fill", "fill", "0.7"),
            Field("goals.nic", "network use", "0.7"),
            Field("goals.disk", "device use", "0.7"),
            Field("goals.cpu", "processor use", "0.6"),
            Field("goals.threshold", "threshold", "0.5, -1"),
            Field("goals.years", "years", "3"),
        ],
    ),
    (
        "Hardware and cost",
        &[
            Field("given.server", "server", "2u-64c"),
            Field("given.brokers", "brokers there are", "6"),
            Field("hardware.tiers", "tiers", "1, 2"),
            Field("hardware.object", "object store", "s3"),
            Field("fleet.cluster_brokers_max", "brokers of a cluster", "60"),
            Field("cost.kwh_usd", "dollars a kWh", "0.15"),
            Field("cost.support", "support a year", "0.1"),
            Field("cost.old_prices", "old prices", "true"),
        ],
    ),
];

/// Returns the whole page.
pub(super) fn page(
    fields: &[(String, String)],
    shown: &FormResult<'_>,
    is_measured: bool,
) -> String {
    let about = "The cheapest hardware that carries a load, what binds it, and what it costs beside plain Kafka.";
    let note = "Fields that are empty stay as the scenario has them. Quantities need a unit: 2 GB/s, 240 KB, 7 d.";
    let mut markup = header("forebay", "plan", about, note);
    let _ = writeln!(markup, "<style>\n{STYLE}</style>");
    form(&mut markup, fields, shown, is_measured);
    markup.push_str("<main id=\"result\" aria-live=\"polite\" tabindex=\"-1\">\n");
    match shown {
        FormResult::Nothing => {}
        FormResult::Plan(plan) => markup.push_str(&plan::emit::report::body(plan)),
        FormResult::Problem(error, _) => {
            let _ = writeln!(
                markup,
                "<p class=\"notice bad\" role=\"alert\"><b>Not answered.</b> {}</p>",
                html(error)
            );
        }
    }
    let _ = writeln!(markup, "</main>\n<script>\n{SCRIPT}</script>");
    Page {
        title: "forebay plan",
        markup: &markup,
        footer: "forebay plan: docs/plan.md says how to read an answer. Everything is computed by the server.",
    }
    .draw()
}

fn form(
    markup: &mut String,
    fields: &[(String, String)],
    shown: &FormResult<'_>,
    is_measured: bool,
) {
    let value = |key: &str| {
        let found = fields.iter().find(|(known, _)| known == key);
        found.map_or("", |(_, value)| value.as_str())
    };
    let wrong = match shown {
        FormResult::Problem(_, Some(key)) => *key,
        _ => "",
    };
    markup.push_str("<form id=\"plan\" method=\"get\" action=\"/plan\">\n<fieldset><legend>Scenario</legend>\n<label>scenario <select name=\"scenario\">");
    let named = SHIPPED.iter().map(|(name, _)| *name).chain([OWN]);
    for name in named.chain(is_measured.then_some("measured")) {
        let selected = if value("scenario") == name {
            " selected"
        } else {
            ""
        };
        let _ = write!(markup, "<option{selected}>{}</option>", html(name));
    }
    markup.push_str("</select></label>\n</fieldset>\n");
    for (legend, all) in FIELDS {
        let _ = writeln!(markup, "<fieldset><legend>{}</legend>", html(legend));
        for Field(key, name, example) in *all {
            let invalid = if is_about(wrong, key) {
                " aria-invalid=\"true\""
            } else {
                ""
            };
            let _ = writeln!(
                markup,
                "<label>{} <input name=\"{key}\" value=\"{}\" placeholder=\"{}\" autocomplete=\"off\" spellcheck=\"false\" maxlength=\"100\"{invalid}></label>",
                html(name),
                html(value(key)),
                html(example)
            );
        }
        markup.push_str("</fieldset>\n");
    }
    let _ = writeln!(
        markup,
        "<details{}><summary>A plan of your own, as a file</summary>\n<label>plan <textarea name=\"toml\" rows=\"14\" spellcheck=\"false\" placeholder=\"{}\">{}</textarea></label></details>",
        if value("toml").is_empty() {
            ""
        } else {
            " open"
        },
        html(OWN_TEXT),
        html(value("toml"))
    );
    markup.push_str("<p><button type=\"submit\">Plan</button> <span id=\"state\" role=\"status\"></span></p>\n</form>\n");
}

/// Returns true if a problem with a key such as `load[0].peak` is about the field `load.peak`.
fn is_about(problem: &str, key: &str) -> bool {
    let mut plain = String::new();
    let mut inside = false;
    for letter in problem.chars() {
        match letter {
            '[' => inside = true,
            ']' => inside = false,
            _ if inside => {}
            letter => plain.push(letter),
        }
    }
    plain == key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_marks_its_field_and_nothing_typed_is_markup() {
        let fields = [("load.peak".to_owned(), "\"><script>x</script>".to_owned())];
        let page = page(
            &fields,
            &FormResult::Problem("<b>", Some("load[0].peak")),
            false,
        );
        assert!(!page.contains("<script>x"), "{page}");
        assert_eq!(
            page.matches("maxlength=\"100\" aria-invalid=\"true\"")
                .count(),
            1
        );
        assert!(is_about("load[12].burst.length", "load.burst.length"));
    }

    #[test]
    fn every_field_is_a_key_of_a_plan() {
        for (_, all) in FIELDS {
            for Field(key, name, example) in *all {
                let first = example.split(',').next().unwrap_or_default();
                let set = [format!("{key}={first}")];
                let text = format!(
                    "{OWN_TEXT}base = \"1 MB/s\"\nburst = {{ length = \"1 s\", interval = \"30 min\" }}\n"
                );
                let read = plan::load::Scenario::read(OWN, &text, &set);
                read.unwrap_or_else(|problem| panic!("{name}: {problem}"));
            }
        }
    }
}
