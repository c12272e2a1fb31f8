//! Settings of queues that the kernel loses when channels or rings of their card get their old
//! number back: new queues have other interrupts, on all CPUs, and no steering.
//!
//! Undo goes backwards, so it has given these settings their old values already, and gives them
//! once more.

use super::{UndoOutcome, UndoneItem, is_old, restore};
use crate::knob;
use crate::root::Tree;
use crate::transaction::{Entry, Transaction};

/// Returns the prefix of the items that a write of this one recreates; none for most items.
fn recreates(item: &str) -> Option<String> {
    let (card, name) = item.strip_prefix("net.")?.rsplit_once('.')?;
    ["channels", "rings"]
        .contains(&name)
        .then(|| format!("net.{card}."))
}

/// Returns whether an item that cannot be taken back now may be after its card's channels.
pub(super) fn may_wait(entry: &Entry) -> bool {
    entry.item.starts_with("net.") && entry.item.ends_with(".rss")
}

/// Gives those settings of a card's queues their old values again that were taken back before its
/// channels or rings were.
pub(super) fn restore_again(
    tree: &dyn Tree,
    transaction: &Transaction,
    made_anew_by: &Entry,
    undone: &[UndoneItem],
) -> Result<(), String> {
    let Some(prefix) = recreates(&made_anew_by.item) else {
        return Ok(());
    };
    let is_back = |item: &str| {
        undone.iter().any(|one| {
            one.item == item
                && matches!(one.outcome, UndoOutcome::Restored | UndoOutcome::Untouched)
        })
    };
    let of_card = transaction.entries.iter().filter(|entry| {
        entry.item.starts_with(&prefix) && recreates(&entry.item).is_none() && is_back(&entry.item)
    });
    for entry in of_card {
        // Queues that the change had added are gone with their settings.
        let Some(knob) = knob::find(tree, &entry.item) else {
            continue;
        };
        let Ok(found) = knob.read(tree) else { continue };
        // The kernel's own spread looks like one that was set, but follows the number of queues.
        if !is_old(&knob, &found, entry) || may_wait(entry) {
            restore(tree, &knob, entry).map_err(|error| format!("{}: {error}", entry.item))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::{ApplyOutcome, Change, apply, order};
    use crate::fake::Habit;
    use crate::fixtures;
    use crate::journal::store::{Store, transactions};
    use crate::undo::undo;

    fn change(item: &str, want: &str) -> Change {
        Change {
            item: item.to_owned(),
            want: want.to_owned(),
        }
    }

    /// Fewer channels give interrupts other numbers and all CPUs, as drivers do.
    #[test]
    fn after_channels_are_taken_back_interrupts_are_where_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let host = fixtures::two_sockets()
            .habit("ethtool/eth0/channels", Habit::Renumbers("eth0", "0-15"));
        let irq = |queue: usize| {
            let knob = knob::find(&host, &format!("net.eth0.rx-{queue}.irq")).unwrap();
            (knob.name.clone(), knob.read(&host).unwrap())
        };
        let before: Vec<String> = (0..2).map(|queue| irq(queue).1).collect();
        assert_eq!(before, ["0", "1"]);
        let (first_number, _) = irq(0);
        let mut changes = [
            change("net.eth0.rx-0.irq", "8"),
            change("net.eth0.rx-1.irq", "9"),
            change("net.eth0.channels", "combined=2"),
        ];
        order(&mut changes);
        assert_eq!(changes[0].item, "net.eth0.channels");
        let store = Store::lock(dir.path(), "boot").unwrap();
        let mut log = store.begin().unwrap();
        let applied = apply(&host, &mut log, &changes).unwrap();
        let is_same = |one: &crate::apply::AppliedItem| one.outcome == ApplyOutcome::Same;
        assert!(applied.iter().all(is_same), "{applied:?}");
        assert_ne!(irq(0).0, first_number, "it has another number");
        assert_eq!((irq(0).1.as_str(), irq(1).1.as_str()), ("8", "9"));
        let transaction = transactions(dir.path()).unwrap().remove(0);
        let undone = undo(&host, &mut log, &transaction, None).unwrap();
        assert!(
            undone
                .iter()
                .all(|one| one.outcome == UndoOutcome::Restored)
        );
        let after: Vec<String> = (0..2).map(|queue| irq(queue).1).collect();
        assert_eq!(after, before);
    }
}
