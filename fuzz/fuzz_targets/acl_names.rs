//! ACLs as administrators send them and as records hold them: names, principals, hosts and codes
//! of any kind. Each is taken or refused; what is taken is read again as it was; an index decides
//! as the plain function over the list does; a filter means what has its fields.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use wire::acl::{
    AclBinding, AclIndex, Action, Change, Client, Operation, Policy, Principal, RawAcl, RawFilter,
    ResourceType, decide, decide_any, super_users,
};
use wire::types::Uuid;

/// ACLs of one input.
const ACLS_MAX: usize = 24;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let mut lines = text.split('\n');
    let question = lines.next().unwrap_or_default();
    let mut fields = question.split('\t');
    let mut field = || fields.next().unwrap_or_default();
    let (users, who, from, name, codes) = (field(), field(), field(), field(), field());
    let acls: Vec<_> = lines.take(ACLS_MAX).filter_map(acl).collect();
    asked(&acls, (users, who, from, name), codes.as_bytes());
});

/// An ACL of a line: four letters that are codes, and three texts.
fn acl(line: &str) -> Option<Arc<AclBinding>> {
    let mut fields = line.split('\t');
    let mut field = || fields.next().unwrap_or_default();
    let (codes, name, principal, host) = (field().as_bytes(), field(), field(), field());
    let raw = RawAcl {
        resource_type: code(codes, 0),
        name,
        pattern_type: code(codes, 1),
        principal,
        host,
        operation: code(codes, 2),
        permission: code(codes, 3),
    };
    let read = raw.read();
    if let Ok(created) = raw.validate() {
        assert!(created.is_understood() && !name.is_empty() && principal.contains(':'));
        assert_eq!(read.as_ref(), Ok(&created));
    }
    let acl = match read {
        Ok(acl) => acl,
        Err(unplaced) => {
            assert!(!unplaced.to_string().is_empty() && unplaced.name.len() <= name.len());
            return None;
        }
    };
    let record = acl.to_record(Uuid::from_u128(1));
    assert_eq!(RawAcl::from(&record).read().as_ref(), Ok(&acl));
    assert_eq!(acl.host.as_str(), host);
    filtered(raw, &acl);
    Some(Arc::new(acl))
}

/// A filter with the fields of an ACL means it; one with another name does not.
fn filtered(raw: RawAcl<'_>, acl: &AclBinding) {
    let filter = RawFilter {
        resource_type: raw.resource_type,
        name: Some(raw.name),
        pattern_type: raw.pattern_type,
        principal: Some(raw.principal),
        host: Some(raw.host),
        operation: raw.operation,
        permission: raw.permission,
    };
    if let Ok(filter) = filter.for_deletion() {
        assert!(filter.matches(acl));
    }
    let other = format!("{}x", raw.name);
    let filter = RawFilter {
        name: Some(&other),
        ..filter
    };
    if let Ok(filter) = filter.for_deletion() {
        assert!(!filter.matches(acl));
    }
}

fn asked(acls: &[Arc<AclBinding>], (users, who, from, name): (&str, &str, &str, &str), codes: &[u8]) {
    let policy = Policy {
        super_users: super_users(users).unwrap_or_default(),
        is_open_without_acl: codes.first().is_some_and(|letter| letter % 2 == 1),
    };
    let principal = Principal::parse(who).unwrap_or_else(|_| Principal::user(who));
    let address = from.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let operation = Operation::from_code(code(codes, 1)).unwrap_or(Operation::Read);
    let resource_type = ResourceType::from_code(code(codes, 2)).unwrap_or(ResourceType::Topic);
    let action = Action {
        operation,
        resource_type,
        name,
    };
    let plain: Vec<AclBinding> = acls.iter().map(|acl| (**acl).clone()).collect();
    let whole = AclIndex::new(acls);
    // The same ACLs, one change after the other, and one that comes and goes.
    let mut grown = AclIndex::new(&[]);
    for acl in acls {
        grown = grown.with(&[Change::Added(Arc::clone(acl))]);
    }
    if let Some(first) = acls.first() {
        let twice = grown.with(&[Change::Added(Arc::clone(first))]);
        grown = twice.with(&[Change::Removed(Arc::clone(first))]);
    }
    for address in [address, IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let client = Client::new(&principal, address);
        let expected = decide(&policy, &plain, &client, &action).is_allowed();
        let any = decide_any(&policy, &plain, &client, operation, resource_type).is_allowed();
        for index in [&whole, &grown] {
            assert_eq!(index.count(), acls.len());
            assert_eq!(index.decide(&policy, &client, &action).is_allowed(), expected);
            let found = index.decide_any(&policy, &client, operation, resource_type);
            assert_eq!(found.is_allowed(), any);
        }
    }
}

/// A code of a letter: those of Kafka and some beyond.
fn code(letters: &[u8], at: usize) -> i8 {
    letters.get(at).map_or(0, |letter| (letter % 20) as i8 - 2)
}
