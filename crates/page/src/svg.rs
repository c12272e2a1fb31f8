//! A drawing: shapes and words with classes; the page defines colours and fonts.
//!
//! Invariant: every text is escaped here, and every drawing has an accessible name.

use std::fmt::Write as _;

use crate::escape;
use crate::number::coordinate as c;

/// A drawing under construction.
#[derive(Debug)]
pub struct Drawing {
    width: f64,
    height: f64,
    inside: String,
}

/// The part of a text that is at its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// The text begins there.
    Start,
    /// The middle of the text is there.
    Middle,
    /// The text ends there.
    End,
}

impl Drawing {
    /// Starts a drawing of this size.
    pub fn new(width: f64, height: f64) -> Drawing {
        Drawing {
            width,
            height,
            inside: String::new(),
        }
    }

    /// Adds a text at a place.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y, text) = (c(x), c(y), escape::html(text));
        let _ = write!(
            self.inside,
            "<text x=\"{x}\" y=\"{y}\"{anchor}{}>{text}</text>",
            class_of(class)
        );
    }

    /// Adds a straight line.
    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        let _ = write!(
            self.inside,
            "<path d=\"M{} {}L{} {}\"{}/>",
            c(x1),
            c(y1),
            c(x2),
            c(y2),
            class_of(class)
        );
    }

    /// Adds a line through points; nothing for fewer than two.
    pub fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        if points.len() > 1 {
            let _ = write!(
                self.inside,
                "<path d=\"{}\"{}/>",
                steps(points),
                class_of(class)
            );
        }
    }

    /// Adds the area between points and the points of another line below.
    pub fn area(&mut self, above: &[(f64, f64)], below: &[(f64, f64)], class: &str) {
        if above.len() > 1 {
            let around: Vec<_> = above.iter().chain(below.iter().rev()).copied().collect();
            let _ = write!(
                self.inside,
                "<path d=\"{}Z\"{}/>",
                steps(&around),
                class_of(class)
            );
        }
    }

    /// Adds a rectangle from its upper left corner, with a tooltip.
    pub fn rect(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        class: &str,
        says: &str,
    ) {
        let _ = write!(
            self.inside,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}{}",
            c(x),
            c(y),
            c(width),
            c(height),
            class_of(class),
            ending("rect", says)
        );
    }

    /// Adds a mark of a measured value, in the form of its series's number, with a tooltip.
    pub fn mark(&mut self, (x, y): (f64, f64), form: usize, class: &str, says: &str) {
        // Forms of about the same area: circle, square, triangle, diamond.
        let side = 5.4;
        let path = match form % 4 {
            0 => {
                let _ = write!(
                    self.inside,
                    "<circle cx=\"{}\" cy=\"{}\" r=\"3\"{}{}",
                    c(x),
                    c(y),
                    class_of(class),
                    ending("circle", says)
                );
                return;
            }
            1 => return self.rect((x - side / 2.0, y - side / 2.0), (side, side), class, says),
            2 => [(x, y - 4.0), (x + 3.8, y + 3.0), (x - 3.8, y + 3.0)].to_vec(),
            _ => [(x, y - 4.0), (x + 4.0, y), (x, y + 4.0), (x - 4.0, y)].to_vec(),
        };
        let _ = write!(
            self.inside,
            "<path d=\"{}Z\"{}{}",
            steps(&path),
            class_of(class),
            ending("path", says)
        );
    }

    /// Returns the element with its accessible name.
    pub fn finish(self, name: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{}</svg>\n",
            c(self.width),
            c(self.height),
            escape::html(name),
            self.inside
        )
    }
}

/// Joins the parts that are not empty.
pub fn words(parts: &[&str], between: &str) -> String {
    let said = parts.iter().filter(|part| !part.is_empty());
    said.copied().collect::<Vec<_>>().join(between)
}

fn class_of(class: &str) -> String {
    if class.is_empty() {
        String::new()
    } else {
        format!(" class=\"{class}\"")
    }
}

fn ending(element: &str, says: &str) -> String {
    if says.is_empty() {
        "/>".to_owned()
    } else {
        format!("><title>{}</title></{element}>", escape::html(says))
    }
}

fn steps(points: &[(f64, f64)]) -> String {
    let mut path = String::with_capacity(points.len() * 12);
    for (at, (x, y)) in points.iter().enumerate() {
        path.push(if at == 0 { 'M' } else { 'L' });
        path.push_str(&c(*x));
        path.push(' ');
        path.push_str(&c(*y));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_no_markup() {
        let mut drawing = Drawing::new(10.0, 20.0);
        drawing.text((1.0, 2.04), Anchor::End, "", "<script>");
        drawing.mark((1.0, 1.0), 0, "t0", "a & b");
        let svg = drawing.finish("\"name\"");
        assert!(svg.starts_with(
            "<svg viewBox=\"0 0 10 20\" role=\"img\" aria-label=\"&quot;name&quot;\">"
        ));
        assert!(
            svg.contains("<text x=\"1\" y=\"2\" text-anchor=\"end\">&lt;script&gt;</text>"),
            "{svg}"
        );
        assert!(svg.contains("<title>a &amp; b</title></circle>"), "{svg}");
    }

    #[test]
    fn one_point_is_no_line() {
        let mut drawing = Drawing::new(1.0, 1.0);
        drawing.polyline(&[(0.0, 0.0)], "");
        drawing.area(&[(0.0, 0.0)], &[(0.0, 1.0)], "");
        assert!(drawing.finish("x").ends_with("\"></svg>\n"));
    }
}
