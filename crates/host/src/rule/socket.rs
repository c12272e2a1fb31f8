//! Sockets: connections dropped at a full queue, datagrams dropped at a full buffer.

use super::{Confidence, RuleInput, RuleOutput, RuleReasons};

/// The kernel's default since 5.4; a smaller value is from before.
const QUEUE_MIN: i64 = 4_096;

pub(super) fn propose(seen: &RuleInput, found: &mut RuleOutput) {
    listen_queue(seen, found);
    datagrams(seen, found);
}

fn listen_queue(seen: &RuleInput, found: &mut RuleOutput) {
    let overflows = seen.of("listen.overflows");
    let id = "sysctl.net.core.somaxconn";
    if overflows <= 0.0 {
        return;
    }
    let Some(now) = seen.number(id) else { return };
    // Larger than both the current value and the backlog that a current server requests.
    let want = now.saturating_mul(4).clamp(QUEUE_MIN, 65_535);
    let why = format!(
        "{overflows} connections found the queue of a listener full; a server that asks for no more than {now} has to ask \
         for more (socket.listen.backlog.size), and listens with the new value after its next start"
    );
    let said = RuleReasons::new(Confidence::Medium, "listen.overflows > 0", why);
    found.items.extend(seen.item(id, want, said));
}

fn datagrams(seen: &RuleInput, found: &mut RuleOutput) {
    let errors = seen.of("udp.receive_buffer_errors");
    if errors <= 0.0 {
        return;
    }
    let id = "sysctl.net.core.rmem_default";
    if let Some(now) = seen.number(id) {
        let why = format!("{errors} datagrams found the buffer of their socket full");
        let said = RuleReasons::new(Confidence::Medium, "udp.receive_buffer_errors > 0", why);
        found
            .items
            .extend(seen.item(id, now.saturating_mul(2), said));
    }
}
