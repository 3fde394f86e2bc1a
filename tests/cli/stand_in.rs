//! A fake service whose responses a test determines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A response of the fake service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Header lines, each with its line break.
    pub(crate) headers: &'static str,
    pub(crate) body: String,
    /// Repeats the body until the client disconnects.
    pub(crate) is_endless: bool,
    /// Closes the connection instead of responding.
    pub(crate) is_lost: bool,
    /// Closes the connection right after the response, without announcing it.
    pub(crate) closes: bool,
}

/// Serves every connection in its own thread. The threads end with the process.
pub(crate) struct StandIn {
    url: String,
}

impl StandIn {
    /// Starts the service. `answer` returns the response to a method and a path.
    pub(crate) fn start(answer: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answer = answer.clone();
                thread::spawn(move || serve(&stream, &*answer));
            }
        });
        Self { url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

/// Serves requests until the client disconnects or a response closes the connection.
fn serve(stream: &TcpStream, answer: &dyn Fn(&str, &str) -> Answer) {
    let mut reader = BufReader::new(stream);
    while let Some((method, path)) = read_request(&mut reader) {
        let Answer { status, headers, body, is_endless, is_lost, closes } = answer(&method, &path);
        let length = if is_endless { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head = format!("HTTP/1.1 {status} As Configured\r\n{headers}{length}\r\n");
        let mut writer = stream;
        if is_lost {
            return;
        }
        if is_endless {
            let mut sent = writer.write_all(head.as_bytes());
            while sent.is_ok() {
                sent = writer.write_all(body.as_bytes());
            }
            return;
        }
        if writer.write_all([head, body].concat().as_bytes()).is_err() || closes {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<(String, String)> {
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut words = first.split(' ');
    let request = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        let header = line.to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    Some(request)
}
