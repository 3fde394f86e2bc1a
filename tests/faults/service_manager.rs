//! A service manager learns when the service is ready and when it stops.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use super::process::refused;
use support::sukkal::Sukkal;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Receives one notification.
fn next(manager: &UnixDatagram) -> String {
    let mut bytes = [0; 256];
    let length = manager.recv(&mut bytes).expect("the service notifies in time");
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

#[tokio::test]
async fn the_service_manager_is_notified_when_the_service_listens_and_when_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let name = format!("sukkal-test-{}", uuid::Uuid::new_v4());
    let sockets = [
        (SocketAddr::from_pathname(&path).unwrap(), path.to_str().unwrap().to_owned()),
        (SocketAddr::from_abstract_name(&name).unwrap(), format!("@{name}")),
    ];
    for (address, variable) in sockets {
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        manager.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut sukkal = Sukkal::start_with("memory:", &[("NOTIFY_SOCKET", &variable)]);

        assert_eq!(next(&manager), "READY=1");
        assert_eq!(support::plain_http::get(sukkal.url("/healthz")).await.unwrap().status(), 204);
        sukkal.terminate();
        assert_eq!(next(&manager), "STOPPING=1");
        assert!(sukkal.wait().success());
    }
}

#[test]
fn a_service_that_cannot_listen_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_nonblocking(true).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();

    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap())];
    let (code, _) = refused(&["serve", "--bind", &address, "--store", "memory:"], &environment);

    assert_eq!(code, Some(2));
    assert!(manager.recv(&mut [0; 256]).is_err(), "nothing was sent");
}

#[tokio::test]
async fn a_service_manager_that_cannot_be_reached_does_not_matter() {
    let sukkal = Sukkal::start_with("memory:", &[("NOTIFY_SOCKET", "/nowhere/notify")]);

    assert_eq!(support::plain_http::get(sukkal.url("/healthz")).await.unwrap().status(), 204);
    sukkal.logged("cannot notify the service manager").await;
}
