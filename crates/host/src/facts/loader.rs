//! What puts options on the kernel's command line at the next start, and how an operator adds one.
//!
//! Invariant: nothing is written. A loader that starts an entry once and falls back by itself is
//! not on every host, and a host whose command line is wrong does not start: an operator does it,
//! and this program checks whether it came into effect.

use serde::Serialize;

use crate::cpus::Cpus;
use crate::root::Tree;

/// The options that may be asked for. `mitigations` is not among them: faults of processors are
/// reported, and never traded for speed.
const OPTIONS: &[&str] = &[
    "default_hugepagesz",
    "hugepages",
    "intel_idle.max_cstate",
    "isolcpus",
    "nohz_full",
    "processor.max_cstate",
    "rcu_nocbs",
    "skew_tick",
    "transparent_hugepage",
    "tsc",
];

/// Where an entry for each kernel is.
pub(crate) const ENTRIES: &str = "boot/loader/entries";

/// A program that starts kernels, or makes its entries.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    /// An image of the host with its options, as bootc and rpm-ostree have it.
    Bootc,
    /// GRUB by its own configuration.
    Grub,
    /// GRUB with an entry for each kernel, which `grubby` edits.
    Grubby,
    /// kernelstub.
    Kernelstub,
    /// systemd-boot, with entries by `kernel-install`.
    SystemdBoot,
}

impl Loader {
    /// Reads which one this host has; none if its files are not known.
    pub(super) fn read(tree: &dyn Tree) -> Option<Loader> {
        let is = |name: &str| tree.read(name).is_ok();
        let of_systemd = [
            "boot/loader/loader.conf",
            "boot/efi/loader/loader.conf",
            "efi/loader/loader.conf",
        ];
        match () {
            () if is("run/ostree-booted") => Some(Loader::Bootc),
            () if is("etc/kernelstub/configuration") => Some(Loader::Kernelstub),
            () if of_systemd.into_iter().any(is) => Some(Loader::SystemdBoot),
            () if !is("etc/default/grub") => None,
            () if tree.names(ENTRIES).is_empty() => Some(Loader::Grub),
            () => Some(Loader::Grubby),
        }
    }

    /// Returns how an operator adds an option.
    fn steps(self, option: &str) -> String {
        match self {
            Loader::Bootc => format!(
                "rpm-ostree kargs --append={option}, or in the image a file of /usr/lib/bootc/kargs.d with kargs = [\"{option}\"]"
            ),
            Loader::Grub => format!(
                "a file /etc/default/grub.d/50-forebay.cfg with GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {option}\", then update-grub"
            ),
            Loader::Grubby => format!("grubby --update-kernel=ALL --args={option}"),
            Loader::Kernelstub => format!("kernelstub --add-options {option}"),
            Loader::SystemdBoot => format!(
                "{option} at the end of the line in /etc/kernel/cmdline, then kernel-install add-all"
            ),
        }
    }
}

/// Checks that a plan may ask for an option with this value.
pub fn allowed(name: &str, want: &str) -> Result<(), String> {
    if !OPTIONS.contains(&name) {
        return Err(format!(
            "{name:?} is none of the boot options that a plan may have: {}",
            OPTIONS.join(", ")
        ));
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b",-:._".contains(&byte);
    if want.is_empty() || !want.bytes().all(is_plain) {
        return Err(format!("{want:?} is no value of a boot option"));
    }
    Ok(())
}

/// Checks that an option has a value in this boot; the error is how it gets it.
pub fn check(
    options: &[String],
    loader: Option<Loader>,
    name: &str,
    want: &str,
) -> Result<(), String> {
    allowed(name, want)?;
    let mut values = options
        .iter()
        .filter_map(|option| option.split_once('='))
        .filter(|(option, _)| *option == name);
    // The kernel takes the last one.
    if values
        .next_back()
        .is_some_and(|(_, now)| is_same(now, want))
    {
        return Ok(());
    }
    Err(format!(
        "no command writes boot options: {}; then restart the host",
        how(loader, &format!("{name}={want}"))
    ))
}

/// Returns how an option gets onto the command line of this host.
pub fn how(loader: Option<Loader>, option: &str) -> String {
    loader.map_or_else(
        || format!("{option} on the kernel's command line, by what starts this host"),
        |loader| loader.steps(option),
    )
}

fn is_same(one: &str, other: &str) -> bool {
    let same_cpus = || {
        let (one, other) = (Cpus::from_list(one)?, Cpus::from_list(other)?);
        Some(one == other)
    };
    one == other || same_cpus() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use crate::facts::boot::Boot;
    use crate::fake::Fake;

    fn boot(files: &[(&str, &str)]) -> Boot {
        Facts::read(&Fake::new(files)).boot
    }

    fn checked(boot: &Boot, name: &str, want: &str) -> Result<(), String> {
        check(&boot.options, boot.loader, name, want)
    }

    #[test]
    fn each_loader_has_its_way() {
        for (file, loader, way) in [
            ("run/ostree-booted", Loader::Bootc, "kargs"),
            (
                "etc/kernelstub/configuration",
                Loader::Kernelstub,
                "kernelstub",
            ),
            (
                "boot/loader/loader.conf",
                Loader::SystemdBoot,
                "/etc/kernel/cmdline",
            ),
            ("etc/default/grub", Loader::Grub, "update-grub"),
        ] {
            let boot = boot(&[(file, "")]);
            assert_eq!(boot.loader, Some(loader));
            let told = checked(&boot, "nohz_full", "1-3").unwrap_err();
            assert!(
                told.contains(way) && told.contains("nohz_full=1-3"),
                "{told}"
            );
        }
        let entries = [("etc/default/grub", ""), ("boot/loader/entries/a.conf", "")];
        assert_eq!(boot(&entries).loader, Some(Loader::Grubby));
        assert!(how(None, "a=b").contains("what starts this host"));
    }

    #[test]
    fn what_is_in_effect_is_checked_and_mitigations_are_not_asked_for() {
        let boot = boot(&[(
            "proc/cmdline",
            "root=/dev/vda nohz_full=0 nohz_full=1,2,3 tsc=reliable",
        )]);
        assert_eq!(checked(&boot, "nohz_full", "1-3"), Ok(()));
        assert_eq!(checked(&boot, "tsc", "reliable"), Ok(()));
        assert!(
            checked(&boot, "nohz_full", "0").is_err(),
            "the last one counts"
        );
        for (name, want) in [
            ("mitigations", "off"),
            ("root", "/dev/vda"),
            ("tsc", "a b"),
            ("tsc", "\""),
        ] {
            assert!(checked(&boot, name, want).is_err(), "{name}");
        }
    }
}
