//! Logical names of settings, with the names that vendors give their attributes and values.
//!
//! The table proposes, the live registry of the machine decides: an attribute or a value that it
//! does not have does not exist. Values are compared without case and signs, because vendors write
//! the same one differently (`EarlySnoop`, `early-snoop`, `Early`).

/// A logical setting.
#[derive(Debug)]
pub(super) struct Logical {
    pub(super) name: &'static str,
    /// Names of the attribute, each of some vendor.
    pub(super) attributes: &'static [&'static str],
    /// (our word, the vendors' words without case and signs).
    values: &'static [(&'static str, &'static [&'static str])],
}

const SWITCH: &[(&str, &[&str])] = &[
    ("on", &["enabled", "enable"]),
    ("off", &["disabled", "disable"]),
];

/// All logical settings.
pub(super) const ALL: &[Logical] = &[
    Logical {
        name: "cpu.c_states",
        attributes: &["ProcCStates"],
        values: SWITCH,
    },
    Logical {
        name: "cpu.numa_per_socket",
        attributes: &[
            "NumaNodesPerSocket",
            "SubNumaCluster",
            "SubNumaClustering",
            "vpSNC",
        ],
        values: &[
            ("1", &["1", "nps1", "disabled", "disable"]),
            ("2", &["2", "nps2", "2way", "enabled", "enable"]),
            ("4", &["4", "nps4", "4way"]),
        ],
    },
    Logical {
        name: "cpu.prefetch.adjacent",
        attributes: &["ProcAdjCacheLine", "AdjacentSectorPrefetch"],
        values: SWITCH,
    },
    Logical {
        name: "cpu.prefetch.hardware",
        attributes: &["ProcHwPrefetcher", "HwPrefetcher"],
        values: SWITCH,
    },
    Logical {
        name: "cpu.snoop",
        attributes: &["SnoopMode", "QpiSnoopConfig", "vpQPISnoopMode"],
        values: &[
            ("early", &["earlysnoop", "early"]),
            ("home", &["homesnoop", "home"]),
            ("cluster-on-die", &["clusterondie", "cod"]),
        ],
    },
];

impl Logical {
    /// Returns our word for a vendor's value.
    pub(super) fn word(&self, value: &str) -> Option<&'static str> {
        let letters = |letter: &char| letter.is_ascii_alphanumeric();
        let plain: String = value.chars().filter(letters).collect();
        let plain = plain.to_ascii_lowercase();
        let found = self
            .values
            .iter()
            .find(|(_, theirs)| theirs.contains(&plain.as_str()));
        found.map(|(word, _)| *word)
    }
}
