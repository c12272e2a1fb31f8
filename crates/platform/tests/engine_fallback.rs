//! Where `io_uring` cannot be had, the thread pool takes over and says why. In a process of its
//! own, since it takes away what a ring needs: another file descriptor.

use platform::os::{EngineChoice, System};
use platform::runtime::run_shard;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn without_a_ring_auto_means_threads_and_io_uring_means_refusal() {
    run_shard(None, async {
        let limit = getrlimit(Resource::Nofile);
        let none = Rlimit {
            current: Some(0),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, none).expect("lowering is allowed");
        let system = System::start(EngineChoice::Auto);
        let refusal = System::start(EngineChoice::IoUring);
        setrlimit(Resource::Nofile, limit).expect("raising to what it was is allowed");
        let system = system.expect("auto always starts");
        assert_eq!(system.engine_name(), "threads");
        let reason = system.engine_fallback_reason().expect("a reason");
        assert!(reason.starts_with("io_uring_setup: "), "{reason}");
        let refusal = refusal.err().expect("refused").to_string();
        let expected = "disk engine io_uring does not work here: io_uring_setup: ";
        assert!(refusal.starts_with(expected), "{refusal}");
    })
    .expect("a runtime");
}
