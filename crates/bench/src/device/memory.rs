//! A file system in memory: tmpfs of the wanted size, or a directory in `/dev/shm` if this process
//! may not mount.

use std::path::Path;

use anyhow::Context as _;

use super::{Device, MadeDevice, command, is_root};
use crate::experiment::need::shown;

const SHARED: &str = "/dev/shm";

pub(super) fn obstacle() -> Option<String> {
    let possible = is_root() || Path::new(SHARED).is_dir();
    (!possible).then(|| format!("without root it needs {SHARED}, which is not there"))
}

pub(super) fn make(
    name: &str,
    dir: &Path,
    size: u64,
    owner: Option<u32>,
) -> anyhow::Result<Device> {
    let unique = owner.map_or_else(|| name.to_owned(), |pid| format!("{name}-{pid}"));
    let emulated;
    let mut made;
    if is_root() {
        made = MadeDevice::begin(&unique, dir.to_owned(), owner)?;
        (made.size, made.mounted) = (Some(size), true);
        made.save()?;
        let options = format!("size={size},mode=0700");
        let mount = ["mount", "-t", "tmpfs", "-o", &options, "forebay-bench"];
        let mut argv: Vec<_> = mount.iter().map(AsRef::as_ref).collect();
        argv.push(dir.as_os_str());
        if let Err(error) = command(&argv) {
            made.remove()?;
            return Err(error);
        }
        emulated = format!("{name}: a file system in memory (tmpfs of {})", shown(size));
    } else {
        let dir = Path::new(SHARED).join(format!("forebay-bench-{unique}"));
        made = MadeDevice::begin(&unique, dir.clone(), owner)?;
        made.size = Some(size);
        made.save()?;
        std::fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        emulated = format!("{name}: a file system in memory ({SHARED})");
    }
    Ok(Device {
        name: name.to_owned(),
        dir: made.dir.clone(),
        join: None,
        emulated: Some(format!("{emulated}; nothing on it survives a power cut")),
        made: Some(made),
    })
}
