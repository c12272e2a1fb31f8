//! The page around the charts: one file that contains its styles and a short script and loads
//! nothing else.
//!
//! Invariants: without the script everything is readable; light and dark are variables of the
//! styles, so that one drawing serves both; this file escapes texts, and callers escape what is
//! named `markup`.

use std::fmt::Write as _;

use crate::chart::{SERIES_COLOURS, series_class};
use crate::escape::html;
use crate::svg::Drawing;

const STYLE: &str = include_str!("frame.css");
const SCRIPT: &str = include_str!("frame.js");

/// A complete HTML file.
#[derive(Debug)]
pub struct Page<'a> {
    /// The title of the window.
    pub title: &'a str,
    /// Everything between header and footer, as markup.
    pub markup: &'a str,
    /// The program that drew the page, and the source of its data.
    pub footer: &'a str,
}

impl Page<'_> {
    /// Returns the file.
    pub fn draw(&self) -> String {
        let (title, footer) = (html(self.title), html(self.footer));
        let markup = self.markup;
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{markup}\
             <footer>{footer}</footer>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
        )
    }
}

/// Returns the head of a page: the section it belongs to, its name, its subject, and when and how
/// it was made.
pub fn header(over: &str, name: &str, about: &str, note: &str) -> String {
    format!(
        "<header>\n<p class=\"over\">{}</p>\n<h1>{}</h1>\n<p class=\"about\">{}</p>\n<p class=\"note\">{}</p>\n</header>\n",
        html(over),
        html(name),
        html(about),
        html(note)
    )
}

/// One series in the bar that explains colours and forms.
#[derive(Debug)]
pub struct Chip<'a> {
    /// Its name, as in the charts.
    pub name: &'a str,
    /// The tooltip.
    pub says: &'a str,
}

/// Returns the bar that explains colours and forms, in the order of series numbers.
///
/// With a script it also selects the series to show.
pub fn chips(name: &str, chips: &[Chip]) -> String {
    let mut bar = format!("<nav class=\"targets\" aria-label=\"{}\">", html(name));
    for (number, chip) in chips.iter().enumerate() {
        let mut key = Drawing::new(12.0, 12.0);
        key.mark((6.0, 6.0), number, &series_class("m", Some(number)), "");
        let _ = write!(
            bar,
            "<span class=\"chip\" data-target=\"{}\" title=\"{}\">{}{}</span>",
            number % SERIES_COLOURS,
            html(chip.says),
            key.finish(&format!("mark of {}", chip.name)).trim_end(),
            html(chip.name)
        );
    }
    bar.push_str("</nav>\n");
    bar
}

/// Returns the start of a group of panels, in as many columns as fit, at most three.
pub fn panels(columns: usize) -> String {
    format!("<div class=\"panels c{}\">\n", columns.clamp(1, 3))
}

/// Returns a chart (markup) with its heading.
pub fn panel(title: &str, under: &str, svg: &str, below: Option<&str>) -> String {
    let mut panel = String::from("<figure class=\"panel\"><figcaption>");
    if !title.is_empty() {
        let _ = write!(panel, "<b>{}</b> ", html(title));
    }
    let _ = write!(panel, "<span>{}</span></figcaption>\n{svg}", html(under));
    if let Some(below) = below {
        let _ = writeln!(panel, "<p class=\"below\">{}</p>", html(below));
    }
    panel.push_str("</figure>\n");
    panel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_is_told_is_no_markup_and_nothing_comes_from_outside() {
        let hostile = "</title><script>x</script>";
        let chips = chips(
            hostile,
            &[Chip {
                name: hostile,
                says: hostile,
            }],
        );
        let markup = header(hostile, hostile, hostile, hostile) + &chips;
        let markup = markup + &panel(hostile, hostile, "", Some(hostile));
        let page = Page {
            title: hostile,
            markup: &markup,
            footer: hostile,
        }
        .draw();
        assert_eq!(page.matches("<script>").count(), 1, "ours only: {page}");
        assert_eq!(page.matches("</title>").count(), 1, "{page}");
        for outside in ["http://", "https://", "src=\"", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.ends_with("</html>\n"));
    }

    #[test]
    fn every_colour_of_a_series_is_there_in_light_and_dark() {
        for series in 0..SERIES_COLOURS {
            let variable = format!("--t{series}: #");
            assert_eq!(STYLE.matches(&variable).count(), 2, "{variable}");
            let class = format!(".t{series} {{ color: var(--t{series}); }}");
            assert!(STYLE.contains(&class), "{class}");
        }
    }
}
