//! The shipped catalogue is sound, and a wrong entry is refused with its line.

use super::*;
use crate::quantity::Dollars;

#[test]
fn what_is_shipped_reads_and_says_where_it_is_from() {
    let all = Catalogue::shipped().unwrap();
    assert!(all.device.len() >= 6 && all.server.len() >= 3 && all.software.len() >= 2);
    for (id, price) in all.prices() {
        let is_said = price.source.is_some() || price.confidence == Confidence::Low;
        assert!(is_said, "{id}: neither a source nor low confidence");
    }
    let nvme = all.device("nvme-tlc-30tb").unwrap();
    let price = nvme.price.as_ref().unwrap();
    assert_eq!(price.purchase(nvme.capacity), Dollars(10_950.0));
    assert_eq!(price.age(Month::new(2026, 11).unwrap()), 8);
}

#[test]
fn a_later_file_wins_by_id() {
    let mut all = Catalogue::shipped().unwrap();
    let count = all.device.len();
    let text = r#"
[[device]]
id = "nvme-tlc-30tb"
class = "flash"
slot = "nvme"
capacity = "30 TB"
read = "6 GB/s"
write = "3 GB/s"
price = { usd = 3062, date = "2025-06", source = "VDURA" }
"#;
    all.overlay(Catalogue::read("mine.toml", text).unwrap());
    assert_eq!(all.device.len(), count);
    let price = all.device("nvme-tlc-30tb").unwrap().price.as_ref().unwrap();
    assert_eq!(price.usd.to_bits(), 3062.0_f64.to_bits());
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, said) in [
        (
            "[[device]]\nid = \"x\"\nclas = \"flash\"\n",
            "mine.toml:3: device[0].clas: \"clas\" is not known here; do you mean class?",
        ),
        (
            "[[nic]]\nid = \"x\"\nrate = \"0 Gb/s\"\n",
            "mine.toml:3: nic[0].rate: 0 is not allowed",
        ),
        (
            "[[nic]]\nid = \"x\"\nrate = \"1 Gb/s\"\nprice = { usd = 1, date = \"May\" }\n",
            "is no month",
        ),
        (
            "[[nic]]\nid = \"x\"\nrate = \"1 Gb/s\"\nprice = { usd = -1, date = \"2026-05\" }\n",
            "is no price",
        ),
    ] {
        let problem = Catalogue::read("mine.toml", text).unwrap_err().to_string();
        assert!(problem.contains(said), "{problem}");
    }
}

#[test]
fn a_month_is_that_of_the_calendar() {
    for (days, expect) in [
        (0, "1970-01"),
        (20_779, "2026-11"),
        (19_782, "2024-02"),
        (19_783, "2024-03"),
    ] {
        assert_eq!(Month::of_day(days).unwrap().to_string(), expect);
    }
}
