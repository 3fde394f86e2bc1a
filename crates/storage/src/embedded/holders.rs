//! Holders of leases in an embedded store. One process uses it at a time, so a lease ends with the
//! process of its holder.

use std::sync::LazyLock;

use uuid::Uuid;

use crate::task_lease::TaskLease;

/// The number with which the ids of all holders in this process begin.
static PROCESS: LazyLock<u64> = LazyLock::new(|| Uuid::new_v4().as_u64_pair().1);

/// Returns the id under which a holder takes a lease.
pub(crate) fn in_this_process(holder: Uuid) -> Uuid {
    Uuid::from_u64_pair(*PROCESS, holder.as_u64_pair().1)
}

/// Returns the lease, after its end if its holder was in another process.
pub(crate) fn current(lease: TaskLease) -> TaskLease {
    let is_of_other_process = lease.has_holder() && lease.holder().as_u64_pair().0 != *PROCESS;
    if is_of_other_process { lease.ended() } else { lease }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task_lease::TASK_LEASE_DURATION;

    #[test]
    fn a_lease_ends_with_the_process_of_its_holder() {
        let taken = |holder| TaskLease::default().taken(holder, 1, TASK_LEASE_DURATION).unwrap();
        let (own, other) = (taken(in_this_process(Uuid::new_v4())), taken(Uuid::new_v4()));

        assert_eq!(current(own), own);
        assert_eq!(current(other), other.ended());
        assert_eq!(current(TaskLease::default()), TaskLease::default());
    }
}
