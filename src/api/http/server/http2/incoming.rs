//! A request over HTTP/2 in the form that handlers know from HTTP/1.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{EXPECT, HOST};
use axum::http::{HeaderValue, Request, Uri};
use h2::RecvStream;
use hyper::body::Frame;

/// Returns the request with a `Host` header, a URL without the host, and the usual body.
pub(super) fn request(request: Request<RecvStream>) -> Request<Body> {
    let (mut head, stream) = request.into_parts();
    if let Some(authority) = head.uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
        && head.headers.get(HOST) != Some(&host)
    {
        // Two different names of the host are refused like two `Host` headers.
        head.headers.append(HOST, host);
    }
    head.uri = head.uri.path_and_query().cloned().map(Uri::from).unwrap_or_default();
    // The server has already asked for the body.
    head.headers.remove(EXPECT);
    let body = if stream.is_end_stream() { Body::empty() } else { Body::new(IncomingBody(stream)) };
    Request::from_parts(head, body)
}

/// The body of a request. The client may send as much as handlers have read.
struct IncomingBody(RecvStream);

impl HttpBody for IncomingBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let Some(data) = ready!(self.0.poll_data(context)) else { return Poll::Ready(None) };
        Poll::Ready(Some(data.and_then(|bytes| {
            self.0.flow_control().release_capacity(bytes.len())?;
            Ok(Frame::data(bytes))
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}
