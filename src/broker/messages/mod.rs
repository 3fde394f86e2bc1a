//! Operations on messages.

mod deleting;
mod popping;
mod posting;
mod reading;

pub use self::posting::{Delay, Draft, PostRequest, Posted, TenantDraft};
pub(super) use self::reading::Start;
pub use self::reading::{Listed, MessageQuery, Since};
