//! What brokers answer for each of many things: partitions, topics.
//!
//! Invariant: everything that was asked for has an answer, or the reason why it has none. What an
//! answer names beyond that is ignored: no command shows it or acts on it.

use std::collections::BTreeMap;

use super::failure::Failure;

/// Returns what the answer has for each thing that was asked for.
///
/// Without an answer all of them have its error.
pub(crate) fn each_answer<K: Ord, T, E: Into<Failure>>(
    asked: impl IntoIterator<Item = K>,
    answer: anyhow::Result<impl IntoIterator<Item = (K, Result<T, E>)>>,
) -> BTreeMap<K, Result<T, Failure>> {
    let silence = match &answer {
        Ok(_) => Failure::LeftOut,
        Err(error) => Failure::NotAsked(format!("{error:#}")),
    };
    let silent = asked.into_iter().map(|key| (key, Err(silence.clone())));
    let mut answers: BTreeMap<_, _> = silent.collect();
    for (key, result) in answer.into_iter().flatten() {
        if let Some(slot) = answers.get_mut(&key) {
            *slot = result.map_err(Into::into);
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use wire::types::ErrorCode;

    use super::*;

    #[test]
    fn what_was_asked_for_has_an_answer_and_nothing_else_has() {
        let refused = || Failure::from(ErrorCode::NotLeaderOrFollower);
        let told = [(1, Ok(10)), (2, Err(refused())), (9, Ok(90))];
        let answers = each_answer([1, 2, 3], Ok(told));
        let expected = [(1, Ok(10)), (2, Err(refused())), (3, Err(Failure::LeftOut))];
        assert_eq!(answers, expected.into());
    }

    #[test]
    fn without_an_answer_its_error_is_that_of_each() {
        let none: anyhow::Result<Vec<(i32, Result<(), Failure>)>> =
            Err(anyhow::anyhow!("reset").context("broker a:1"));
        let silent = || Err(Failure::NotAsked("broker a:1: reset".into()));
        let expected = [(1, silent()), (2, silent())];
        assert_eq!(each_answer([2, 1], none), expected.into());
    }
}
