//! What one connection may take: memory, turns, time.

use super::*;

#[test]
fn an_idle_connection_is_closed_but_not_one_whose_request_takes_long() {
    let short = Limits {
        idle_max: Some(Duration::from_millis(400)),
        ..limits()
    };
    run(short, |mut world| async move {
        world.send(b"o").await;
        let quiet = tokio::time::timeout(Duration::from_millis(900), world.client.read_u8()).await;
        assert!(quiet.is_err(), "closed while a request is worked on");
        world.service.release();
        assert_eq!(world.receive().await, b"o");
        assert!(matches!(world.end().await, (rest, End::Idle) if rest.is_empty()));
    });
}

#[test]
fn a_body_that_stops_coming_ends_the_connection() {
    let short = Limits {
        stall_max: Duration::from_millis(40),
        ..limits()
    };
    run(short, |mut world| async move {
        send(&mut world.client, &[0, 1, 0, 0, 7, 7, 7]).await;
        let budget = world.budget.clone();
        assert!(matches!(world.end().await, (_, End::Stalled)));
        assert_eq!(budget.used_bytes(), 0);
    });
}

#[test]
fn a_peer_that_does_not_read_its_answers_is_cut_off() {
    let short = Limits {
        stall_max: Duration::from_millis(100),
        frame_bytes_max: 64 << 20,
        ..limits()
    };
    run_with_budget(short, 64 << 20, |mut world| async move {
        world.send(&vec![b'x'; 32 << 20]).await;
        let answers = &world.environment.answers;
        world
            .service
            .until(|_| answers.used_bytes() > 16 << 20)
            .await;
        assert!(matches!((&mut world.served).await.unwrap(), End::Stalled));
        assert_eq!(answers.used_bytes(), 0);
    });
}

#[test]
fn large_answers_take_turns_and_a_client_that_does_not_read_keeps_none() {
    let large = Limits {
        frame_bytes_max: 64 << 20,
        ..limits()
    };
    run_with_budget(large, 64 << 20, |mut world| async move {
        let frame = vec![b'x'; 12 << 20];
        // These take what the system takes, and read no more.
        let mut sleepy = Vec::new();
        for _ in 0..6 {
            let (mut client, end) = world.another().await;
            send(&mut client, &prefixed(&frame)).await;
            sleepy.push((client, end));
        }
        world.service.until(|service| service.begun() == 6).await;
        world.send(&frame).await;
        assert!(world.receive().await == frame);
        // Nor does one that goes away in the middle.
        drop(sleepy.pop());
        for (client, _) in &mut sleepy {
            let mut answer = vec![0; frame.len() + 4];
            client.read_exact(&mut answer).await.unwrap();
            assert!(answer[4..] == frame);
        }
        world.send(&frame).await;
        assert!(world.receive().await == frame);
    });
}

#[test]
fn a_request_is_not_begun_before_its_memory_is_granted() {
    run_with_budget(limits(), 1 << 20, |mut world| async move {
        let ip = world.client.socket().peer_addr().unwrap().ip();
        let other = world.budget.account(ip);
        let taken: Vec<_> = std::iter::from_fn(|| other.try_take(1000)).collect();
        for len in [900, 60_000, 900_000] {
            world.send(&vec![b'x'; len]).await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(world.service.begun(), 0);
        drop(taken);
        for len in [900, 60_000, 900_000] {
            assert_eq!(world.receive().await.len(), len);
        }
        world
            .service
            .until(|_| world.budget.used_bytes() == 0)
            .await;
    });
}

#[test]
fn frames_that_are_only_announced_keep_nobody_from_being_served() {
    run_with_budget(limits(), 1 << 20, |mut world| async move {
        let mut sleepy = Vec::new();
        for _ in 0..20 {
            let (client, _end) = world.another().await;
            sleepy.push(client);
        }
        for client in &mut sleepy {
            let length = 1_000_000_i32.to_be_bytes();
            send(client, &[&length[..], &[7; 8]].concat()).await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(world.budget.used_bytes(), 0);
        for len in [10, 60_000, 500_000] {
            world.send(&vec![b'x'; len]).await;
            assert_eq!(world.receive().await.len(), len);
        }
    });
}
