//! Which directories belong together: every log directory lists them.
//!
//! For those who look at a directory without a broker, such as `forebay backup`.

use std::path::PathBuf;

use wire::types::{Uuid, uuid_from_base64};

use super::{lower, roster};

/// The lists in a log directory: of all log directories, and of the paths of lower tiers.
pub const LISTS: [&str; 2] = [roster::FILE, lower::FILE];

/// Returns what the text of such a list names: ids of directories, and where they were last.
///
/// Lines that are none are left out; a start warns of them.
pub fn listed(text: &[u8]) -> Vec<(Uuid, PathBuf)> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let named = lines.filter_map(|(id, path)| Some((uuid_from_base64(id)?, path.into())));
    named.collect()
}

#[cfg(test)]
mod tests {
    use wire::types::uuid_to_base64;

    use super::*;

    #[test]
    fn a_list_names_directories_by_their_ids() {
        let id = Uuid::from_u128(77);
        let text = format!("{} /a path/logs\nnonsense\n", uuid_to_base64(id));
        assert_eq!(listed(text.as_bytes()), [(id, "/a path/logs".into())]);
    }
}
