//! `sukkal ready`: exits with 0 if the service on this machine is ready, with 1 and the reason if it is not, with 2 on a bad option.
//!
//! Health checks of containers run it, so the image needs no shell and no HTTP client.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use super::{fail, serve};
use crate::config::Bind;

/// Longer than the service needs to find out that its store does not answer.
const TIMEOUT: Duration = Duration::from_secs(4);
const REQUEST: &[u8] = b"GET /readyz HTTP/1.0\r\n\r\n";
const ANSWER_BYTES_MAX: u64 = 64 << 10;

pub(super) fn run(options: &serve::Options) -> ExitCode {
    let bind = match options.load() {
        Ok(config) => config.operations.bind.unwrap_or(config.bind),
        Err(end) => return end,
    };
    let address = match reachable(&bind) {
        Ok(address) => address,
        Err(error) => return fail(1, &format!("there is no address {bind}: {error}")),
    };
    match ask(address) {
        Ok(answer) if answer.status == "204" => ExitCode::SUCCESS,
        Ok(answer) => fail(1, &format!("http://{address}/readyz answers {answer}")),
        Err(error) => fail(1, &format!("http://{address}/readyz does not answer: {error}")),
    }
}

/// Where a process on this machine reaches a service that listens at an address.
fn reachable(bind: &Bind) -> io::Result<SocketAddr> {
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

fn ask(address: SocketAddr) -> io::Result<Answer> {
    let mut connection = TcpStream::connect_timeout(&address, TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.write_all(REQUEST)?;
    let mut text = String::new();
    connection.take(ANSWER_BYTES_MAX).read_to_string(&mut text)?;
    Ok(Answer::parse(&text))
}

#[derive(Debug, PartialEq)]
struct Answer {
    status: String,
    /// Empty if the body does not have one.
    description: String,
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        Self {
            status: head.split_whitespace().nth(1).unwrap_or("without a status").to_owned(),
            description: body["description"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let separator = if self.description.is_empty() { "" } else { ": " };
        write!(formatter, "{}{separator}{}", self.status, self.description)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_listens_everywhere_is_asked_on_loopback() {
        for (bind, asked) in [
            ("0.0.0.0:8888", "127.0.0.1:8888"),
            ("[::]:8888", "[::1]:8888"),
            (":8888", "127.0.0.1:8888"),
            ("localhost:8888", "127.0.0.1:8888"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("192.0.2.7:8888", "192.0.2.7:8888"),
        ] {
            assert_eq!(reachable(&bind.parse().unwrap()).unwrap(), asked.parse().unwrap());
        }
    }

    #[test]
    fn an_answer_of_something_else_is_shown_as_far_as_it_can_be_read() {
        for (text, shown) in [
            ("HTTP/1.1 404 Not Found\r\n\r\nnot json", "404"),
            ("HTTP/1.0 503 x\r\n\r\n{\"description\": \"no store\"}", "503: no store"),
            ("", "without a status"),
        ] {
            assert_eq!(Answer::parse(text).to_string(), shown);
        }
    }
}
