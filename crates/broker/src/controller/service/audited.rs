//! What an auditor has to know of a change that the controller decides on, and the refusal of
//! changes that cannot be written down.
//!
//! Only a decision that changes something counts: a request that is refused, or that only asks
//! whether it would be permitted, makes no records. Not here: what became of the change
//! (`turn.rs`).

use wire::types::ErrorCode;

use crate::audit::{AuditedRecords, AuditedTurn};
use crate::controller::answers::ControllerResponse;
use crate::controller::mutations::Caller;
use crate::controller::{ControllerDecision, Rules};

/// Returns what an auditor wants to know of a decision; takes the decision back if he wants to know
/// and cannot.
pub(super) fn audited_turn<R: ControllerResponse>(
    caller: &Caller,
    rules: Rules<'_>,
    decision: &mut ControllerDecision<R>,
) -> Option<AuditedTurn> {
    let request = caller.audited.as_deref()?;
    if decision.records.is_empty() {
        return None;
    }
    if !request.takes_changes() {
        decision.response.fail(ErrorCode::PolicyViolation);
        decision.records.clear();
        return None;
    }
    request.changing(|| {
        let records = decision.records.clone();
        AuditedRecords::new(rules.image, records, rules.options.config_keys)
    })
}
