//! A slow disk on a fast one: ext4 on a loop device with direct I/O, throttled by the kernel.
//!
//! The image is allocated completely beforehand, so that the file system below it only has to
//! write.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::throttle::Throttle;
use super::{Device, MadeDevice, command, installed, is_root};
use crate::experiment::need::shown;

pub(super) fn obstacle() -> Option<String> {
    if !is_root() {
        return Some("it needs root, to mount and to limit a loop device".to_owned());
    }
    let tools = ["losetup", "mkfs.ext4", "mount", "umount", "fallocate"];
    if let Some(missing) = tools.into_iter().find(|tool| !installed(tool)) {
        return Some(format!("{missing} is missing"));
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("there are no loop devices (modprobe loop)".to_owned());
    }
    Throttle::find(Path::new("/sys/fs/cgroup"), "probe")
        .err()
        .map(|error| error.to_string())
}

pub(super) fn make(
    name: &str,
    dir: &Path,
    size: u64,
    rate: u64,
    owner: Option<u32>,
) -> anyhow::Result<Device> {
    let unique = owner.map_or_else(|| name.to_owned(), |pid| format!("{name}-{pid}"));
    // The kernel names the file behind a loop device by its absolute path.
    let dir = std::fs::canonicalize(dir).with_context(|| format!("finding {}", dir.display()))?;
    let mut made = MadeDevice::begin(&unique, dir.clone(), owner)?;
    (made.size, made.rate) = (Some(size), Some(rate));
    made.image = Some(dir.with_extension("image"));
    let built = made
        .save()
        .and_then(|()| build(&mut made, size, rate, &unique));
    if let Err(error) = built {
        made.remove()?;
        return Err(error);
    }
    let join = made.throttle.as_ref().and_then(Throttle::join);
    Ok(Device {
        name: name.to_owned(),
        dir,
        join,
        emulated: Some(format!(
            "{name}: ext4 on a loop device (direct I/O) that the kernel holds to {}/s for reads and {}/s \
             for writes; its latency is that of the disk below",
            shown(rate),
            shown(rate)
        )),
        made: Some(made),
    })
}

fn build(made: &mut MadeDevice, size: u64, rate: u64, unique: &str) -> anyhow::Result<()> {
    let image = made
        .image
        .clone()
        .context("a limited device has an image")?;
    let length = size.to_string();
    run(&["fallocate", "-l", &length], &image)?;
    run(
        &["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard"],
        &image,
    )?;
    let attached = run(&["losetup", "--find", "--show", "--direct-io=on"], &image)?;
    let device = PathBuf::from(attached);
    made.loop_device = Some(device.clone());
    made.save()?;
    let number = number(&device)?;
    let throttle = Throttle::find(Path::new("/sys/fs/cgroup"), unique)?.on(&number);
    made.throttle = Some(throttle.clone());
    made.mounted = true;
    made.save()?;
    throttle.hold_to(rate)?;
    let mount = ["mount".as_ref(), "-t".as_ref(), "ext4".as_ref()];
    let argv = [&mount[..], &[device.as_os_str(), made.dir.as_os_str()]].concat();
    command(&argv)?;
    // mkfs makes this directory; a broker must find an empty one.
    let lost = made.dir.join("lost+found");
    std::fs::remove_dir(&lost).with_context(|| format!("removing {}", lost.display()))
}

fn run(argv: &[&str], path: &Path) -> anyhow::Result<String> {
    let mut argv: Vec<_> = argv.iter().map(AsRef::as_ref).collect();
    argv.push(path.as_os_str());
    command(&argv)
}

/// Returns the `major:minor` of a block device.
fn number(device: &Path) -> anyhow::Result<String> {
    let name = device.file_name().context("a loop device has a name")?;
    let file = Path::new("/sys/block").join(name).join("dev");
    let text =
        std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    Ok(text.trim().to_owned())
}
