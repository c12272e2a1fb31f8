//! Which requests a broker serves, and in which versions.

use std::collections::BTreeMap;

use wire::messages::ApiVersionsResponse;

use crate::ask;
use crate::error::ClientError;

/// The oldest and newest version of each request that a broker serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Versions(BTreeMap<i16, (i16, i16)>);

impl Versions {
    /// Takes them from the broker's answer.
    pub(super) fn of(answer: &ApiVersionsResponse) -> Self {
        let ranges = answer.api_keys.iter();
        let ranges = ranges.map(|range| (range.api_key, (range.min_version, range.max_version)));
        Self(ranges.collect())
    }

    /// Returns the newest version of a request that the broker and this end know.
    pub(super) fn common(
        &self,
        broker: &str,
        api: i16,
        ours: (i16, i16),
    ) -> Result<i16, ClientError> {
        let theirs = self.0.get(&api).copied();
        let (ours_min, ours_max) = ours;
        let common = theirs.and_then(|(min, max)| {
            let newest = max.min(ours_max);
            (newest >= min && newest >= ours_min).then_some(newest)
        });
        common.ok_or_else(|| ClientError::Unsupported {
            broker: broker.to_owned(),
            api: ask::name_of(api),
            theirs,
            ours,
        })
    }
}

#[cfg(test)]
mod tests {
    use wire::messages::api_versions_response::ApiVersion;

    use super::*;

    fn versions(ranges: &[(i16, i16, i16)]) -> Versions {
        let ranges = ranges.iter().map(|&(api, min, max)| {
            ApiVersion::default()
                .with_api_key(api)
                .with_min_version(min)
                .with_max_version(max)
        });
        Versions::of(&ApiVersionsResponse::default().with_api_keys(ranges.collect()))
    }

    #[test]
    fn the_newest_common_version_or_why_there_is_none() {
        let theirs = versions(&[(0, 3, 9), (1, 4, 17), (3, 12, 20)]);
        assert_eq!(theirs.common("a:1", 0, (3, 12)), Ok(9));
        assert_eq!(theirs.common("a:1", 1, (4, 12)), Ok(12));
        let told = |api, ours| theirs.common("a:1", api, ours).unwrap_err().to_string();
        assert_eq!(
            told(3, (0, 11)),
            "broker a:1 serves Metadata in versions 12 to 20, 0 to 11 are known here"
        );
        assert_eq!(
            told(0, (10, 12)),
            "broker a:1 serves Produce in versions 3 to 9, 10 to 12 are known here"
        );
        assert_eq!(told(11, (0, 9)), "broker a:1 does not serve JoinGroup");
    }
}
