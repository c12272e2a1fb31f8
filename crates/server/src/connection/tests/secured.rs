//! Connections under TLS: forged and torn records, silence, and what they hold.

use super::*;

/// Runs a scenario with each version of TLS.
#[expect(
    clippy::needless_pass_by_value,
    reason = "as the scenarios are written"
)]
fn run_secured<F: Future>(limits: Limits, scenario: impl Fn(World) -> F) {
    for between in [Between::Tls12, Between::Tls13] {
        run_between(between, limits.clone(), 64 << 20, &scenario);
    }
}

/// Bytes on the socket below TLS.
async fn inject(client: &Client, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        client.socket().writable().await.unwrap();
        match client.socket().try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
}

#[test]
fn a_record_that_was_made_by_nobody_ends_the_connection_and_begins_nothing() {
    for record in [
        // A record of 32 bytes that no key has sealed, one of no kind there is, one that is too
        // long.
        &[&[23, 3, 3, 0, 32][..], &[7; 32]].concat()[..],
        b"GET / HTTP/1.1\r\n\r\n",
        &[23, 3, 3, 0xff, 0xff, 1],
    ] {
        run_secured(limits(), |mut world| async move {
            world.send(b"first").await;
            assert_eq!(world.receive().await, b"first");
            inject(&world.client, record).await;
            let (service, (rest, end)) = (Rc::clone(&world.service), world.end().await);
            assert!(matches!(end, End::BadFrame(ReadError::Tls(_))), "{end:?}");
            assert!(rest.is_empty());
            assert_eq!(service.begun(), 1);
        });
    }
}

#[test]
fn a_socket_that_ends_without_a_word_of_tls_ends_the_connection_and_leaves_no_half_request() {
    run_secured(limits(), |mut world| async move {
        world.send(b"whole").await;
        assert_eq!(world.receive().await, b"whole");
        // The end of the next frame is cut off: a thousand bytes were announced.
        send(&mut world.client, &[0, 0, 3, 232, b'x', b'x']).await;
        let (service, Client::Tls(stream)) = (Rc::clone(&world.service), world.client) else {
            unreachable!("with TLS")
        };
        let (socket, _tls) = stream.into_inner();
        drop(socket);
        let end = world.served.await.unwrap();
        assert!(
            matches!(end, End::BadFrame(ReadError::Truncated { missing: 998 })),
            "{end:?}"
        );
        assert_eq!(service.begun(), 1);
    });
    run_secured(limits(), |mut world| async move {
        world.send(b"whole").await;
        assert_eq!(world.receive().await, b"whole");
        // The beginning of a record, and no more of it.
        inject(&world.client, &[23, 3, 3, 1, 0, 7, 7, 7]).await;
        let Client::Tls(stream) = world.client else {
            unreachable!("with TLS")
        };
        drop(stream.into_inner().0);
        assert!(matches!(world.served.await.unwrap(), End::Closed));
    });
}

#[test]
fn a_record_that_stops_coming_ends_the_connection() {
    let short = Limits {
        stall_max: Duration::from_millis(40),
        ..limits()
    };
    run_secured(short, |mut world| async move {
        world.send(b"first").await;
        assert_eq!(world.receive().await, b"first");
        inject(&world.client, &[23, 3, 3, 1, 0, 7, 7, 7]).await;
        assert!(matches!(world.end().await, (rest, End::Stalled) if rest.is_empty()));
    });
}

#[test]
fn a_connection_that_waits_holds_no_records() {
    run_secured(limits(), |mut world| async move {
        for len in [1, 10, 20_000, 300_000, 70_000, 1 << 20] {
            world.send(&vec![b'x'; len]).await;
            assert_eq!(world.receive().await.len(), len);
        }
        world.service.until(|_| world.record_bytes.get() == 0).await;
    });
}

#[test]
fn who_does_not_read_holds_a_bounded_number_of_sealed_bytes_and_they_are_counted() {
    let large = Limits {
        frame_bytes_max: 64 << 20,
        ..limits()
    };
    run_secured(large, |mut world| async move {
        world.send(&vec![b'x'; 32 << 20]).await;
        let answers = world.environment.answers.clone();
        let held = world.record_bytes.clone();
        world
            .service
            .until(|_| answers.used_bytes() > 16 << 20 && held.get() > 0)
            .await;
        assert!(held.get() < 200 << 10, "{}", held.get());
        assert_eq!(world.receive().await.len(), 32 << 20);
        world.service.until(|_| held.get() == 0).await;
        assert_eq!(answers.used_bytes(), 0);
    });
}

#[test]
fn a_length_of_two_gigabytes_under_tls_takes_no_memory() {
    run_secured(limits(), |mut world| async move {
        send(&mut world.client, &[0x7f, 0xff, 0xff, 0xff, 0, 0]).await;
        let (budget, (rest, end)) = (world.budget.clone(), world.end().await);
        assert!(
            matches!(end, End::BadFrame(ReadError::BadLength(_))),
            "{end:?}"
        );
        assert!(rest.is_empty());
        assert_eq!(budget.used_bytes(), 0);
    });
}
