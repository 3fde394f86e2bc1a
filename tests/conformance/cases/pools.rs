//! The list of pools and flavors.

use bytes::Bytes;
use sukkal_domain::{Flavor, Pool};
use sukkal_storage::{PoolList, PoolsVersion, StoredPool};

use crate::conformance::support::subject::Subject;

const OK: &str = "the store answers";

/// Returns a list with a pool of this name.
fn list_with(name: &str, subject: &Subject) -> PoolList {
    let options = serde_json::json!({ "é": name }).as_object().unwrap().clone();
    let (name, uri) = (name.parse().unwrap(), "redis://***@h/1".parse().unwrap());
    let pool = Pool { name, uri, weight: 7, flavor: Some("fast".parse().unwrap()), options, is_retired: false };
    let stored = StoredPool { pool, sealed_uri: Some(Bytes::from_static(&[0, 255])), is_closed: false };
    let flavor = Flavor { project: subject.project().clone(), name: "fast".parse().unwrap() };
    PoolList { version: None, pools: vec![stored], flavors: vec![flavor] }
}

async fn load(subject: &Subject) -> PoolList {
    subject.store().load_pools(None).await.expect(OK).expect("without a known version, there is always a list")
}

async fn replace(subject: &Subject, known: Option<&PoolsVersion>, list: &PoolList) -> bool {
    subject.store().replace_pools(known, list).await.expect(OK)
}

/// Replaces the list, whatever other tests do with it in a shared store.
async fn set(subject: &Subject, list: &PoolList) -> PoolList {
    loop {
        let before = load(subject).await;
        if replace(subject, before.version.as_ref(), list).await {
            return before;
        }
    }
}

pub(in crate::conformance) async fn a_list_of_pools_is_replaced_as_a_whole(subject: &Subject) {
    if subject.is_shared() {
        return;
    }
    assert_eq!(load(subject).await, PoolList::default());
    for name in ["a", "b"] {
        let list = list_with(name, subject);
        set(subject, &list).await;

        let PoolList { version, pools, flavors } = load(subject).await;
        assert!(version.is_some());
        assert_eq!((pools, flavors), (list.pools, list.flavors));
    }
}

pub(in crate::conformance) async fn a_list_of_pools_is_returned_only_if_it_has_changed(subject: &Subject) {
    if subject.is_shared() {
        return;
    }
    let mut before = None;
    for _ in 0..2 {
        set(subject, &list_with("a", subject)).await;

        let changed = subject.store().load_pools(before.as_ref()).await.expect(OK).expect("the list has changed");
        assert_eq!(subject.store().load_pools(changed.version.as_ref()).await.expect(OK), None);
        before = changed.version;
    }
}

pub(in crate::conformance) async fn a_list_that_another_process_has_replaced_is_left_alone(subject: &Subject) {
    let before = set(subject, &list_with("a", subject)).await;

    assert!(!replace(subject, before.version.as_ref(), &list_with("b", subject)).await);
    assert!(!replace(subject, None, &list_with("b", subject)).await);
    assert_ne!(load(subject).await.pools, list_with("b", subject).pools);
}
