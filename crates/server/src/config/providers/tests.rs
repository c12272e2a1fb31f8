//! Which references are followed, and what is said of those that lead nowhere.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::super::raw::RawSettings;

const CLASS: &str = "org.apache.kafka.common.config.provider";

struct World {
    home: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let world = Self { home };
        world.write("s.properties", "pw=hunter2\npw2=a\\u00e9b\nempty=\n");
        world.write("word", "hunter3\n");
        world
    }

    fn path(&self) -> String {
        self.home.path().display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.home.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Settings with all three providers, and `HOME` for the path of the files.
    fn settled(&self, text: &str) -> RawSettings {
        let all = format!(
            "config.providers=file,dir,env\nconfig.providers.file.class={CLASS}.FileConfigProvider\n\
             config.providers.dir.class={CLASS}.DirectoryConfigProvider\n\
             config.providers.env.class={CLASS}.EnvVarConfigProvider\n{text}\n"
        );
        let mut raw = RawSettings::default();
        let all = all.replace("HOME", &self.path());
        raw.add_bytes(Path::new("f"), all.as_bytes()).unwrap();
        let environment = |name: &str| (name == "WORD").then(|| "hunter4".to_owned());
        raw.settle_in(&environment);
        raw
    }

    #[track_caller]
    fn value(&self, text: &str) -> String {
        let raw = self.settled(text);
        assert_eq!(raw.problems, [], "{text}");
        raw.entries.last().unwrap().text().to_owned()
    }

    /// Why a value is refused, without the place.
    #[track_caller]
    fn refused(&self, text: &str) -> String {
        let raw = self.settled(text);
        let said: Vec<_> = raw.problems.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 1, "{text}: {said:?}");
        assert!(!said[0].contains("hunter"), "{}", said[0]);
        said[0].replace(&self.path(), "HOME")
    }
}

#[test]
fn a_value_has_what_its_references_stand_for() {
    let world = World::new();
    for (text, expected) in [
        ("ssl.key.password=${file:HOME/s.properties:pw}", "hunter2"),
        ("ssl.key.password=${file:HOME/s.properties:pw2}", "a\u{e9}b"),
        ("ssl.key.password=${file:HOME/s.properties:empty}", ""),
        ("ssl.key.password=${dir:HOME:word}", "hunter3"),
        ("ssl.key.password=${env:WORD}", "hunter4"),
        ("a.b=x${env:WORD}y${dir:HOME:word}z", "xhunter4yhunter3\nz"),
        ("a.b=RULE:^(?<who>.*)$/${who}/", "RULE:^(?<who>.*)$/${who}/"),
    ] {
        assert_eq!(world.value(text), expected, "{text}");
    }
}

#[test]
fn what_is_put_in_is_not_looked_at_again() {
    let world = World::new();
    world.write("word", "${env:WORD}");
    assert_eq!(
        world.value("ssl.key.password=${dir:HOME:word}"),
        "${env:WORD}"
    );
}

#[test]
fn a_reference_that_leads_nowhere_is_named_with_its_key() {
    let world = World::new();
    world.write("broken", "a=\\u12");
    for (text, expected) in [
        (
            "ssl.key.password=a${file:HOME/s.properties:nothing}",
            "f:5: ssl.key.password=${file:HOME/s.properties:nothing}: there is no such key in the file",
        ),
        (
            "ssl.key.password=${file:/nowhere/at/all:pw}",
            "f:5: ssl.key.password=${file:/nowhere/at/all:pw}: there is no such file",
        ),
        (
            "ssl.key.password=${file:pw}",
            "f:5: ssl.key.password=${file:pw}: names no path",
        ),
        (
            "ssl.key.password=${file:s.properties:pw}",
            "f:5: ssl.key.password=${file:s.properties:pw}: has to name an absolute path",
        ),
        (
            "ssl.key.password=${dir:HOME:../word}",
            "f:5: ssl.key.password=${dir:HOME:../word}: has to name a file of that directory itself",
        ),
        (
            "ssl.key.password=${dir:HOME:nothing}",
            "f:5: ssl.key.password=${dir:HOME:nothing}: there is no such file",
        ),
        (
            "ssl.key.password=${env:NOTHING}",
            "f:5: ssl.key.password=${env:NOTHING}: there is no such variable with a text in UTF-8",
        ),
        (
            "ssl.key.password=${env:a:WORD}",
            "f:5: ssl.key.password=${env:a:WORD}: has a path, and a variable has none",
        ),
        (
            "ssl.key.password=${env:}",
            "f:5: ssl.key.password=${env:}: names no key",
        ),
        (
            "ssl.key.password=${vault:a:b}",
            "f:5: ssl.key.password=(hidden): has a reference to a config provider that is none of \
             config.providers=dir,env,file: name it there, or, if this is no reference, put the \
             value into a file and refer to that",
        ),
    ] {
        assert_eq!(world.refused(text), expected);
    }
    let broken = world.refused("ssl.key.password=${file:HOME/broken:a}");
    assert!(
        broken.contains("its file is no file of properties"),
        "{broken}"
    );
    assert!(
        world
            .refused("ssl.key.password=${file:/dev/zero:a}")
            .contains("cannot be read")
    );
}

#[test]
fn a_provider_reads_only_what_it_may() {
    let world = World::new();
    let only = "config.providers.file.param.allowed.paths=HOME/sub, HOME/s.properties\n\
                config.providers.env.param.allowlist.pattern=WO\n";
    let pw = "ssl.key.password=${file:HOME/s.properties:pw}";
    assert_eq!(world.value(&format!("{only}{pw}")), "hunter2");
    for path in [
        "HOME/word",
        "HOME/sub/../word",
        "HOME/subway",
        "/etc/passwd",
    ] {
        let said = world.refused(&format!("{only}ssl.key.password=${{file:{path}:pw}}"));
        assert!(
            said.ends_with("is outside of allowed.paths of its provider"),
            "{said}"
        );
    }
    let said = world.refused(&format!("{only}ssl.key.password=${{env:WORD}}"));
    assert!(
        said.ends_with("is not in allowlist.pattern of its provider"),
        "{said}"
    );
    for (text, why) in [
        (
            "config.providers.file.param.allowed.paths=a",
            "must be absolute paths",
        ),
        (
            "config.providers.env.param.allowlist.pattern=(",
            "must be a regular expression",
        ),
        (
            "config.providers.env.class=com.example.Vault",
            "must be one of org.apache.kafka",
        ),
    ] {
        let said = world.refused(text);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn only_the_value_that_is_in_force_is_looked_for() {
    let world = World::new();
    let both = "num.partitions=${file:/nowhere:a}\nnum.partitions=${env:WORD}";
    assert_eq!(world.value(both), "hunter4");
}

#[test]
fn a_value_of_a_provider_is_in_no_message_whatever_setting_it_is_for() {
    let world = World::new();
    let raw = world.settled(
        "num.partitions=${env:WORD}\nlisteners=${env:WORD}\nunknown.key=${env:WORD}\n\
         ssl.key.password=${dir:HOME:word}",
    );
    let machine = crate::machine::Machine {
        host_name: "here".into(),
        cores: 1,
        memory_bytes: 1 << 30,
    };
    let checked = crate::config::Settings::judge(&raw, &machine);
    let shown = format!("{raw:?} {:?} {:?}", checked.problems, checked.warnings);
    assert!(shown.contains("num.partitions"), "{shown}");
    assert!(!shown.contains("hunter"), "{shown}");
}

/// A reference to a secret in the wrong setting, whose messages repeat one name of a list.
#[test]
fn a_part_of_what_a_provider_has_is_in_no_message_either() {
    let world = World::new();
    let long = "q".repeat(50) + &"z".repeat(5000);
    world.write("s.properties", &format!("pw=hunter5,hunterlong-{long}\n"));
    let machine = crate::machine::Machine {
        host_name: "here".into(),
        cores: 1,
        memory_bytes: 1 << 30,
    };
    let standard = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    for key in [
        "listeners",
        "listener.security.protocol.map",
        "ssl.cipher.suites",
        "sasl.enabled.mechanisms",
        "super.users",
        "log.dirs",
        "authorizer.class.name",
    ] {
        let raw = world.settled(&format!(
            "authorizer.class.name={standard}\n{key}=x,${{file:HOME/s.properties:pw}}"
        ));
        let checked = crate::config::Settings::judge(&raw, &machine);
        let shown = format!("{raw:?} {:?} {:?}", checked.problems, checked.warnings);
        assert!(!shown.contains("hunter"), "{key}: {shown}");
        assert!(!shown.contains("qqqqqqqq"), "{key}: {shown}");
    }
}

#[test]
fn a_file_that_is_a_password_and_no_properties_is_not_shown() {
    let world = World::new();
    world.write("only", "hunter2\\users");
    let said = world.refused("ssl.key.password=${file:HOME/only:pw}");
    assert!(said.contains("no file of properties: line 1"), "{said}");
    world.write("only", "hunter2");
    world.refused("ssl.key.password=${file:HOME/only:pw}");
}

/// A value may have very many references; it is not copied for each of them.
#[test]
fn many_references_in_a_value_are_followed_in_little_memory() {
    let world = World::new();
    let value = "${dir:HOME:word}"
        .repeat(100)
        .replace("HOME", &world.path());
    let text = format!(
        "config.providers=dir\nconfig.providers.dir.class={CLASS}.DirectoryConfigProvider\na.b={value}"
    );
    let mut raw = RawSettings::default();
    raw.add_bytes(Path::new("f"), text.as_bytes()).unwrap();
    let settled = super::replace(&mut raw.entries, &|_| None);
    let (first, last) = (&settled.files[0], &settled.files[99]);
    assert!(std::rc::Rc::ptr_eq(&first.entry, &last.entry));
    assert_eq!(raw.entries[2].text().matches("hunter3").count(), 100);
}

#[test]
fn files_of_secrets_that_others_may_read_are_warned_of_or_refused() {
    let world = World::new();
    let path = world.home.path().join("word");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let secret = "ssl.key.password=${dir:HOME:word}";
    let raw = world.settled(secret);
    assert_eq!((raw.problems.len(), raw.warnings.len()), (0, 1));
    assert!(raw.warnings[0].why.contains("others than its owner"));
    let said = world.refused(&format!("secrets.permissions=strict\n{secret}"));
    assert!(said.contains("chmod 600 HOME/word"), "{said}");
    // It is no secret.
    let raw = world.settled("log.level=${dir:HOME:word}");
    assert_eq!(raw.warnings, []);
}

#[test]
fn a_file_with_a_reference_that_leads_nowhere_has_no_secret() {
    let world = World::new();
    let path = world.home.path().join("a.properties");
    world.write(
        "a.properties",
        &format!(
            "config.providers=env\nconfig.providers.env.class={CLASS}.EnvVarConfigProvider\n\
             ssl.key.password=${{env:NOTHING}}\nsecrets.permissions=strict\n"
        ),
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let mut raw = RawSettings::default();
    raw.add_file(&path).unwrap();
    raw.settle_in(&|_| None);
    assert_eq!((raw.problems.len(), raw.warnings.len()), (1, 0), "{raw:?}");
    assert!(raw.problems[0].allowed.contains("no such variable"));
}

#[test]
fn a_file_of_settings_with_secrets_is_looked_at_and_so_is_the_command_line() {
    let world = World::new();
    world.write("a.properties", "ssl.key.password=hunter2\n");
    let path = world.home.path().join("a.properties");
    let warnings = |mode: u32| {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let mut raw = RawSettings::default();
        raw.add_file(&path).unwrap();
        raw.settle();
        raw.warnings.len()
    };
    assert_eq!((warnings(0o600), warnings(0o604)), (0, 1));
    let mut raw = RawSettings::default();
    raw.add_arguments(&["ssl.key.password=hunter2".into(), "node.id=1".into()])
        .unwrap();
    raw.settle();
    assert_eq!(raw.warnings.len(), 1);
    assert!(raw.warnings[0].why.contains("command line"));
}

#[test]
fn what_looks_like_a_reference_is_said_where_there_is_no_provider() {
    let mut raw = RawSettings::default();
    raw.add_bytes(Path::new("f"), b"ssl.key.password=${file:/a:b}\na.b=${who}")
        .unwrap();
    raw.settle();
    let said: Vec<_> = raw.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("config.providers is not set"),
        "{}",
        said[0]
    );
}
