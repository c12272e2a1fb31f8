//! Rows below a head, in columns as wide as needed.
//!
//! On a terminal that is too narrow the widest cells go on in further lines, and nothing is left
//! out. Elsewhere a row is a line.
//!
//! Invariant: cells are escaped ([`wire::text`]): text of others cannot forge a row.

use wire::text::escaped;

use crate::terminal;

/// Blanks between two columns.
const BETWEEN: &str = "  ";
/// A column that is made narrower keeps at least this width.
const COLUMN_MIN: usize = 8;
/// A cell gets at most this many blanks: a cell that is longer by more makes no row longer.
const PADDING_MAX: usize = 4096;
/// A cell is divided behind one of these, if there is one in the second half of the line.
const SEPARATORS: &[char] = &[' ', ',', '.', '-', '_', '/', ':', '='];

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn headed(head: &[&str]) -> Self {
        Self {
            rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()],
        }
    }

    /// Makes a table of two columns without a head: names and values.
    pub(crate) fn plain() -> Self {
        Self { rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, row: [String; N]) {
        self.rows
            .push(Vec::from(row.map(|cell| escaped(&cell).into_owned())));
    }

    /// Returns the lines, without trailing blanks, as wide as the terminal at most.
    pub(crate) fn render(&self) -> String {
        self.fitted(terminal::size().map(|size| size.columns))
    }

    /// Does the same for a terminal with this number of columns, or for no terminal.
    pub(super) fn fitted(&self, terminal: Option<usize>) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        if let Some(terminal) = terminal {
            narrow(&mut widths, terminal);
        }
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths);
            let cells: Vec<_> = cells.map(|(cell, &width)| pieces(cell, width)).collect();
            let lines = cells.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..lines {
                let cells = cells.iter().zip(&widths).map(|(pieces, &width)| {
                    let piece = pieces.get(line).map_or("", String::as_str);
                    let missing = width.saturating_sub(piece.chars().count());
                    format!("{piece}{}", " ".repeat(missing.min(PADDING_MAX)))
                });
                let cells: Vec<_> = cells.collect();
                text.push_str(cells.join(BETWEEN).trim_end());
                text.push('\n');
            }
        }
        text
    }
}

/// Makes the widest columns narrower until the row fits.
fn narrow(widths: &mut [usize], terminal: usize) {
    let between = BETWEEN.len().saturating_mul(widths.len().saturating_sub(1));
    let room = terminal.saturating_sub(between);
    let sum = |most: usize| {
        let widths = widths.iter().map(|&width| width.min(most));
        widths.fold(0, usize::saturating_add)
    };
    // A column is never wider than the terminal.
    let most = (COLUMN_MIN..=room).rev().find(|&most| sum(most) <= room);
    let most = most.unwrap_or(COLUMN_MIN);
    for width in widths {
        *width = (*width).min(most);
    }
}

/// Divides a cell into pieces of at most `width` characters.
fn pieces(cell: &str, width: usize) -> Vec<String> {
    let letters: Vec<char> = cell.chars().collect();
    let mut rest = &letters[..];
    let mut pieces = Vec::new();
    while let Some((fits, _)) = rest
        .split_at_checked(width)
        .filter(|(_, more)| !more.is_empty())
    {
        let separator = fits.iter().rposition(|letter| SEPARATORS.contains(letter));
        let behind = separator.map_or(0, |at| at.saturating_add(1));
        let length = if behind > width / 2 { behind } else { width };
        let Some((piece, more)) = rest.split_at_checked(length.max(1)) else {
            break;
        };
        pieces.push(piece.iter().collect());
        rest = more;
    }
    pieces.push(rest.iter().collect());
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::text::is_unseen;

    use super::*;

    #[test]
    fn a_group_id_can_neither_move_the_cursor_nor_forge_a_row() {
        let mut table = Table::headed(&["GROUP", "STATE"]);
        table.row([
            "a\x1b[2J\x07\nforged  Stable".into(),
            "\u{9b}1mEmpty".into(),
        ]);
        let shown = "GROUP                               STATE\n\
                     a\\u{1b}[2J\\u{7}\\u{a}forged  Stable  \\u{9b}1mEmpty\n";
        assert_eq!(table.fitted(None), shown);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::headed(&["NAME", "N"]);
        table.row(["cars".into(), "12".into()]);
        table.row(["long-name".into(), String::new()]);
        let wide = "NAME       N\ncars       12\nlong-name\n";
        assert_eq!(table.fitted(None), wide);
        assert_eq!(table.fitted(Some(13)), wide);
        assert_eq!(Table::plain().fitted(Some(80)), "");
    }

    #[test]
    fn on_a_narrow_terminal_long_cells_go_on_below() {
        let mut table = Table::headed(&["KEY", "VALUE"]);
        table.row(["policy".into(), "compact,delete,and-more".into()]);
        table.row(["x".into(), "0123456789abcdefghi".into()]);
        let narrow = "KEY     VALUE\n\
                      policy  compact,\n        delete,and-\n        more\n\
                      x       0123456789ab\n        cdefghi\n";
        assert_eq!(table.fitted(Some(20)), narrow);
    }

    #[test]
    fn a_cell_of_any_length_is_shown_and_makes_other_rows_little_longer() {
        let mut table = Table::headed(&["KEY", "VALUE"]);
        table.row(["k".repeat(70_000), "x".into()]);
        let text = table.fitted(None);
        let lengths: Vec<_> = text.lines().map(str::len).collect();
        let between = BETWEEN.len();
        assert_eq!(
            lengths,
            [3 + PADDING_MAX + between + 5, 70_000 + between + 1]
        );
    }

    proptest! {
        #[test]
        fn a_table_has_a_line_for_each_row_and_nothing_unseen(
            rows in proptest::collection::vec(("[\\x00-\\u{2100}]{0,12}", any::<String>()), 0..6)
        ) {
            let mut table = Table::headed(&["A", "B"]);
            let lines = rows.len() + 1;
            for (a, b) in rows {
                table.row([a, b]);
            }
            let text = table.fitted(None);
            prop_assert_eq!(text.matches('\n').count(), lines);
            prop_assert!(!text.contains(|c| c != '\n' && is_unseen(c)));
        }

        #[test]
        fn a_line_is_no_wider_than_the_terminal_and_nothing_is_left_out(
            cells in proptest::collection::vec("[a-w,.-]{0,60}", 1..6), columns in 0_usize..90
        ) {
            let mut table = Table::plain();
            for cell in &cells {
                table.row([cell.clone(), "x".repeat(20), String::new()]);
            }
            let text = table.fitted(Some(columns));
            let widest = columns.max(3 * COLUMN_MIN + 2 * BETWEEN.len());
            prop_assert!(text.lines().all(|line| line.chars().count() <= widest), "{}", text);
            let without_padding = |text: &str| text.replace([' ', '\n', 'x'], "");
            prop_assert_eq!(without_padding(&text), cells.concat());
            prop_assert_eq!(text.matches('x').count(), 20 * cells.len());
        }
    }
}
