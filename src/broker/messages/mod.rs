//! Operations on messages.

mod content;
mod deleting;
mod popping;
mod posting;
mod reading;

pub use self::content::content_of;
pub use self::posting::{Delay, Draft, PostRequest, Posted, TenantDraft};
pub(super) use self::reading::Start;
pub use self::reading::{Listed, MessageQuery, Since};
