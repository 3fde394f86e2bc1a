//! Quotas of projects, and what projects use.

use std::collections::HashMap;

use sukkal_domain::{ProjectId, Quota, QuotaOverrides};
use sukkal_storage::{QuotaList, QuotaVersion};

use crate::conformance::support::subject::{Subject, fresh_project};

const OK: &str = "the store answers";

fn quotas(set: &[(Quota, u64)]) -> QuotaOverrides {
    let mut quotas = QuotaOverrides::default();
    for (quota, limit) in set {
        quotas[*quota] = Some(*limit);
    }
    quotas
}

async fn list(subject: &Subject, known: Option<&QuotaVersion>) -> Option<QuotaList> {
    subject.store().list_quotas(known).await.expect(OK)
}

async fn all(subject: &Subject) -> HashMap<ProjectId, QuotaOverrides> {
    list(subject, None).await.expect("a list without a known version is never empty").projects.into_iter().collect()
}

async fn set(subject: &Subject, project: &ProjectId, quotas: QuotaOverrides) {
    subject.store().set_quotas(project, &quotas).await.expect(OK);
}

pub(in crate::conformance) async fn quotas_of_a_project_are_replaced_as_a_whole(subject: &Subject) {
    let (one, two) = (fresh_project(), ProjectId::new(&format!("{}/é\0", fresh_project())).unwrap());
    set(subject, &one, quotas(&[(Quota::Queues, 5), (Quota::Subscriptions, 6)])).await;
    set(subject, &two, quotas(&[(Quota::Queues, 0)])).await;
    set(subject, &one, quotas(&[(Quota::RequestsPerSecond, u64::MAX)])).await;

    let listed = all(subject).await;
    assert_eq!(listed[&one], quotas(&[(Quota::RequestsPerSecond, u64::MAX)]));
    assert_eq!(listed[&two], quotas(&[(Quota::Queues, 0)]));
    set(subject, &one, QuotaOverrides::default()).await;
    let listed = all(subject).await;
    assert!(!listed.contains_key(&one) && listed.contains_key(&two));
}

pub(in crate::conformance) async fn a_long_list_of_quotas_is_complete(subject: &Subject) {
    let projects: Vec<_> = (0..1_200).map(|_| fresh_project()).collect();
    for (project, limit) in projects.iter().zip(1..) {
        set(subject, project, quotas(&[(Quota::EventStreams, limit)])).await;
    }

    let listed = all(subject).await;

    for (project, limit) in projects.iter().zip(1..) {
        assert_eq!(listed[project], quotas(&[(Quota::EventStreams, limit)]));
    }
}

/// Other tests may set quotas in a shared store at any time.
pub(in crate::conformance) async fn a_list_of_quotas_is_returned_only_if_it_has_changed(subject: &Subject) {
    if subject.is_shared() {
        return;
    }
    let project = fresh_project();
    assert_eq!(list(subject, None).await.unwrap().version, None);
    let mut known = None;
    for quotas in [quotas(&[(Quota::Queues, 1)]), quotas(&[(Quota::Queues, 1)]), QuotaOverrides::default()] {
        set(subject, &project, quotas).await;

        let changed = list(subject, known.as_ref()).await.expect("the list has changed");
        assert_eq!(list(subject, changed.version.as_ref()).await, None);
        known = changed.version;
    }
}

pub(in crate::conformance) async fn a_measurement_covers_all_queues_of_a_project_in_steps(subject: &Subject) {
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        subject.queue(name).await;
    }

    let (mut after, mut reached) = (None, Vec::new());
    loop {
        let measured = subject.store().measure_queues(subject.project(), after.as_ref(), 2).await.expect(OK);
        assert_eq!(measured.usage.subscriptions, 0);
        after = measured.reached;
        match &after {
            Some(name) => reached.push(name.to_string()),
            None => break,
        }
    }

    assert_eq!(reached, ["b", "d"]);
    let nobody = subject.store().measure_queues(&fresh_project(), None, 2).await.expect(OK);
    assert_eq!(nobody, sukkal_storage::MeasuredQueues::default());
}
