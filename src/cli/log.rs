//! The log on stderr: one line for each event, as text or JSON, with the id of the current request.

use std::fmt;
use std::io::{self, IsTerminal};

use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Full, Json, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config::{Log, LogFormat};
use crate::observability::request_id::RequestId;

/// Libraries that would log each frame and each handshake with the filter `debug`. The filter may
/// name them.
const QUIET: &str = "h2=warn,rustls=warn";

/// Initializes the log. Returns a message if `log.filter` is wrong.
pub(super) fn start(log: &Log) -> Result<(), String> {
    let filter =
        EnvFilter::try_new(format!("{QUIET},{}", log.filter)).map_err(|error| format!("log.filter: {error}"))?;
    let has_colors = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let writer = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(has_colors).with_writer(io::stderr);
    let is_text = match log.format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    if is_text {
        writer.event_format(TextLine(Format::default())).init();
    } else {
        writer.fmt_fields(JsonFields::new()).event_format(JsonLine(Format::default().json())).init();
    }
    Ok(())
}

/// Formats an event as a line of text that begins with the id of the request.
struct TextLine(Format<Full>);

/// Formats an event as a JSON object, with the id of the request as `request_id`.
struct JsonLine(Format<Json>);

impl<S, N> FormatEvent<S, N> for TextLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if let Some(id) = RequestId::current() {
            write!(to, "{id} ")?;
        }
        self.0.format_event(context, to, event)
    }
}

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let Some(id) = RequestId::current() else {
            return self.0.format_event(context, to, event);
        };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let fields = line.trim_end().strip_suffix('}').ok_or(fmt::Error)?;
        writeln!(to, "{fields},\"request_id\":\"{id}\"}}")
    }
}
