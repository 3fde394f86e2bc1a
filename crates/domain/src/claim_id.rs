//! The id of a claim.

use uuid::Uuid;

use super::random_id::random_id;

random_id! {
    /// Id of a claim: a random UUID. Ids are ordered by their bytes.
    ClaimId
}

impl From<ClaimId> for Uuid {
    fn from(id: ClaimId) -> Self {
        id.0
    }
}
