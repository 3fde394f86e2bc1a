//! `sukkal ready`: checks whether the service on this machine is ready.
//!
//! The exit code is 0 if it is, 1 with the reason if it is not, and 2 if an option is wrong. Health
//! checks of containers run this command, so the image needs no shell and no HTTP client.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use super::exit::fail;
use super::serve;
use crate::config::Bind;

/// Longer than the service takes to detect that its store does not respond.
const TIMEOUT: Duration = Duration::from_secs(4);
const REQUEST: &[u8] = b"GET /readyz HTTP/1.0\r\n\r\n";
const RESPONSE_BYTES_MAX: u64 = 64 << 10;

pub(super) fn run(options: &serve::Options) -> ExitCode {
    let bind = match options.load() {
        Ok(config) => config.operations.bind.unwrap_or(config.bind),
        Err(code) => return code,
    };
    let address = match local_address(&bind) {
        Ok(address) => address,
        Err(error) => return fail(1, &format!("cannot resolve the address {bind}: {error}")),
    };
    match get_readiness(address) {
        Ok(response) if response.status == "204" => ExitCode::SUCCESS,
        Ok(response) => fail(1, &format!("http://{address}/readyz answers {response}")),
        Err(error) => fail(1, &format!("http://{address}/readyz does not answer: {error}")),
    }
}

/// The address at which a process on this machine reaches a service that listens on `bind`.
fn local_address(bind: &Bind) -> io::Result<SocketAddr> {
    let host = bind.host.as_deref().unwrap_or("127.0.0.1");
    let found = (host, bind.port).to_socket_addrs()?.min_by_key(SocketAddr::is_ipv6);
    let mut address = found.ok_or(io::ErrorKind::AddrNotAvailable)?;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    Ok(address)
}

fn get_readiness(address: SocketAddr) -> io::Result<Response> {
    let mut connection = TcpStream::connect_timeout(&address, TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.write_all(REQUEST)?;
    let mut text = String::new();
    connection.take(RESPONSE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(Response::parse(&text))
}

#[derive(Debug, PartialEq)]
struct Response {
    status: String,
    /// Empty if the body has no description.
    description: String,
}

impl Response {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        Self {
            status: head.split_whitespace().nth(1).unwrap_or("without a status").to_owned(),
            description: body["description"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

impl std::fmt::Display for Response {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let separator = if self.description.is_empty() { "" } else { ": " };
        write!(formatter, "{}{separator}{}", self.status, self.description)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_listens_on_all_addresses_is_reached_on_loopback() {
        for (bind, address) in [
            ("0.0.0.0:8888", "127.0.0.1:8888"),
            ("[::]:8888", "[::1]:8888"),
            (":8888", "127.0.0.1:8888"),
            ("localhost:8888", "127.0.0.1:8888"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("192.0.2.7:8888", "192.0.2.7:8888"),
        ] {
            assert_eq!(local_address(&bind.parse().unwrap()).unwrap(), address.parse().unwrap());
        }
    }

    #[test]
    fn a_response_of_another_service_is_shown_as_far_as_it_can_be_parsed() {
        for (text, shown) in [
            ("HTTP/1.1 404 Not Found\r\n\r\nnot json", "404"),
            ("HTTP/1.0 503 x\r\n\r\n{\"description\": \"no store\"}", "503: no store"),
            ("", "without a status"),
        ] {
            assert_eq!(Response::parse(text).to_string(), shown);
        }
    }
}
