//! A controller on a simulated disk, and changes that do not fit its image.

use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;

use platform::Disk;
use platform::runtime::run_simulated;
use platform::sim::SimPlatform;
use storage::{Metrics, OpenAs, Store, StoreOptions};
use wire::records::metadata::{ConfigRecord, RemoveTopicRecord};
use wire::types::{NodeId, Offset, Uuid};

use super::*;
use crate::controller::Home;
use crate::controller::tests::options;
use crate::image::{Image, ResourceType};

async fn started(platform: &SimPlatform) -> Rc<Controller<SimPlatform>> {
    let home = Home {
        node: NodeId(1),
        dir: "/d".into(),
        open_as: OpenAs {
            clean: false,
            recovery_point: Offset(0),
            log_start: Offset(0),
            compacted: None,
        },
        directories: vec![Uuid::from_u128(0xd1)],
        snapshot_bytes: 1 << 20,
        has_logs: false,
        reserve_bytes: 1 << 20,
    };
    platform.disk().create_dir(Path::new("/d")).await.unwrap();
    let publish = Rc::new(|_: Arc<Image>| -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(std::future::ready(()))
    });
    let store = StoreOptions {
        cache_bytes_max: 1 << 20,
        cache_bytes_start: 1 << 20,
        unwritten_bytes_max: 8 << 20,
        chunk_bytes: 64 << 10,
        reserve_chunks: 0,
        allocate_step_bytes: 32 << 10,
        save_interval_bytes: 1 << 30,
        read_ahead_bytes_max: 64 << 10,
        open_segments_max: 64,
    };
    let store = Store::new(platform.clone(), store, Metrics::unregistered());
    let controller =
        Controller::start(platform.clone(), &store, Arc::new(options()), home, publish);
    controller.await.unwrap()
}

fn setting(value: &str) -> MetadataRecord {
    ConfigRecord {
        resource_type: ResourceType::TOPIC.0,
        resource_name: "t".to_owned(),
        name: "retention.ms".to_owned(),
        value: Some(value.to_owned()),
    }
    .into()
}

#[test]
fn a_change_that_does_not_fit_the_metadata_is_refused_before_any_of_it_is_written() {
    let test = async {
        let platform = SimPlatform::new(3);
        let controller = started(&platform).await;
        let (before, end) = (controller.image(), controller.log.end_offset());
        let unfit = RemoveTopicRecord {
            topic_id: Uuid::from_u128(9),
        };
        let turn = controller.turn(async |_, _| ControllerDecision {
            records: vec![setting("1"), unfit.into()],
            response: (),
        });
        assert_eq!(turn.await, Err(ErrorCode::UnknownServerError));
        assert_eq!(controller.log.end_offset(), end);
        assert_eq!(controller.image().applied(), before.applied());
        let of_t = |image: &Image| image.settings(ResourceType::TOPIC, "t").cloned();
        assert_eq!(of_t(&controller.image()), None);
        // The next change is not affected.
        let turn = controller.turn(async |_, _| ControllerDecision {
            records: vec![setting("2")],
            response: (),
        });
        assert_eq!(turn.await, Ok(()));
        let image = controller.image();
        let value = image.setting(ResourceType::TOPIC, "t", "retention.ms");
        assert_eq!(value, Some("2"));
        assert!(image.last_applied_offset() >= end);
    };
    run_simulated(test).unwrap();
}
