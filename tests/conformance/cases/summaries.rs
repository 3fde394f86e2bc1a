//! Summaries of queues, and the list of projects.

use std::time::Duration;

use sukkal_domain::{Holding, NewMessage, ProjectId, QueueId, Summary, Totals};
use sukkal_storage::ProjectPage;

use crate::conformance::support::subject::{LONG_S, Subject, fresh_project, message, messages, queue_id};

const OK: &str = "the store answers";
/// More queues than one call applies due changes to.
const DUE_QUEUES: usize = 150;

pub(in crate::conformance) async fn a_summary_counts_messages_by_state(subject: &Subject) {
    let queue = subject.queue("q").await;
    assert_eq!(subject.summary(&queue).await, Summary::default());
    assert_eq!(subject.summary(&subject.id("never")).await, Summary::default());
    subject.post(&queue, &[message(LONG_S, 0), NewMessage { delay_s: 100, ..message(LONG_S, 1) }]).await;
    subject.advance(&queue, Duration::from_secs(60)).await;
    subject.post(&queue, &messages(LONG_S, 3)).await;

    let messages = Holding { available: 4, delayed: 1, claimed: 0, oldest_age_s: Some(60) };
    let totals = Totals { posted: 5, ..Totals::default() };
    assert_eq!(subject.summary(&queue).await, Summary { messages, is_paused: false, totals });
    let claim = subject.claim(&queue, 3, 600).await;
    subject.advance(&queue, Duration::from_secs(7)).await;
    let messages = Holding { available: 1, delayed: 1, claimed: 3, oldest_age_s: Some(7) };
    assert_eq!(subject.summary(&queue).await.messages, messages);
    subject.release(&queue, claim.id).await;
    assert_eq!(subject.summary(&queue).await.messages.oldest_age_s, Some(67));
}

/// The age is that of the position in the feed, so a delay does not make a message old.
pub(in crate::conformance) async fn the_oldest_age_counts_from_the_end_of_a_delay(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &[NewMessage { delay_s: 100, ..message(LONG_S, 0) }]).await;
    subject.advance(&queue, Duration::from_secs(110)).await;

    let messages = Holding { available: 1, delayed: 0, claimed: 0, oldest_age_s: Some(10) };
    assert_eq!(subject.summary(&queue).await.messages, messages);
}

pub(in crate::conformance) async fn a_summary_applies_due_changes(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 1_500)).await;
    subject.post(&queue, &messages(LONG_S, 300)).await;
    subject.claim(&queue, 1_000, 30).await;
    subject.advance(&queue, Duration::from_secs(400)).await;

    let summary = subject.summary(&queue).await;

    assert_eq!((summary.messages.available, summary.messages.claimed, summary.totals.expired), (300, 0, 1_500));
}

pub(in crate::conformance) async fn a_summary_says_whether_the_queue_is_paused(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.store().pause_queue(&queue).await.expect(OK);
    subject.store().purge_queue(&queue).await.expect(OK);
    assert!(subject.summary(&queue).await.is_paused);

    subject.store().resume_queue(&queue).await.expect(OK);
    assert!(!subject.summary(&queue).await.is_paused);
}

pub(in crate::conformance) async fn summaries_are_in_the_order_of_the_queues(subject: &Subject) {
    let mut queues = Vec::new();
    for number in 0..50 {
        let queue = subject.queue(&format!("q{number}")).await;
        subject.post(&queue, &messages(LONG_S, number + 1)).await;
        queues.push(queue);
    }
    queues.insert(7, subject.id("never"));
    queues.reverse();

    let posted: Vec<u64> = summaries(subject, &queues).await.iter().map(|summary| summary.totals.posted).collect();

    let expected: Vec<u64> = (1..=7).chain([0]).chain(8..=50).rev().collect();
    assert_eq!(posted, expected);
    assert_eq!(summaries(subject, &[]).await, []);
}

/// The queues that one call leaves out are included in a later one. In a shared store, the
/// maintenance of another process may have applied the changes before the first call.
pub(in crate::conformance) async fn one_call_applies_due_changes_to_a_bounded_number_of_queues(subject: &Subject) {
    for attempt in 0..if subject.is_shared() { 3 } else { 1 } {
        if read_due_queues(subject, attempt).await > 1 {
            return;
        }
    }
    panic!("one call has applied the changes of all queues");
}

/// Returns how many calls it took to read queues with due changes.
async fn read_due_queues(subject: &Subject, attempt: usize) -> usize {
    let mut queues = Vec::new();
    for number in 0..DUE_QUEUES {
        let queue = subject.queue(&format!("q{attempt}-{number}")).await;
        subject.post(&queue, &messages(60, 1)).await;
        subject.advance(&queue, Duration::from_secs(62)).await;
        queues.push(queue);
    }

    let mut calls = Vec::new();
    while calls.iter().sum::<usize>() < DUE_QUEUES {
        let summaries = summaries(subject, &queues[calls.iter().sum()..]).await;
        assert!(summaries.iter().all(|summary| summary.totals.expired == 1));
        calls.push(summaries.len());
    }

    assert!(calls.iter().all(|count| *count > 0), "{calls:?}");
    calls.len()
}

async fn summaries(subject: &Subject, queues: &[QueueId]) -> Vec<Summary> {
    subject.store().summarize_queues(queues).await.expect(OK)
}

pub(in crate::conformance) async fn projects_with_queues_are_listed_once_in_a_fixed_order(subject: &Subject) {
    let base = fresh_project();
    let project = |end: &str| ProjectId::new(&format!("{base}{end}")).expect("it is not empty");
    let plain = ["", "-", ".", "0", "A", "_", "a", "aa", "b"].map(project);
    let others = ["/x", "%2F", "é", " \"", "\u{1F600}"].map(project);
    for (number, project) in plain.iter().chain(&others).enumerate() {
        for copy in 0..=number {
            subject.create(&queue_id(project, &format!("q{copy}"))).await;
        }
    }
    subject.delete(&queue_id(&plain[0], "q0")).await;

    let mut listed: Vec<(ProjectId, u64)> = Vec::new();
    let mut after = Some(plain[0].clone());
    while listed.len() < plain.len() + others.len() - 1 {
        let page = subject.store().list_projects(after.as_ref(), 4).await.expect(OK);
        assert!(page.projects.len() <= 4);
        let own = page.projects.into_iter().filter(|(project, _)| project.as_str().starts_with(base.as_str()));
        listed.extend(own);
        assert!(page.reached.is_some() || listed.len() == plain.len() + others.len() - 1);
        after = page.reached;
    }

    let of = |some: &[ProjectId]| -> Vec<_> {
        listed.iter().filter(|(project, _)| some.contains(project)).cloned().collect()
    };
    let counted = |some: &[ProjectId], first: u64| some.iter().cloned().zip(first..).collect::<Vec<_>>();
    assert_eq!(of(&plain), counted(&plain[1..], 2));
    let mut found = of(&others);
    found.sort_by_key(|(_, count)| *count);
    assert_eq!(found, counted(&others, plain.len() as u64 + 1));
}

pub(in crate::conformance) async fn a_list_of_projects_can_start_after_any_id(subject: &Subject) {
    subject.queue("q").await;
    let unknown = ProjectId::new(&format!("{}\0", subject.project())).expect("it is not empty");
    let before = ProjectId::new(subject.project().as_str().trim_end_matches(|char| char != '-')).expect("it is long");

    let mut after = Some(before);
    let mut is_listed = false;
    while let Some(marker) = after.filter(|_| !is_listed) {
        let page = subject.store().list_projects(Some(&marker), 100).await.expect(OK);
        is_listed = page.projects.contains(&(subject.project().clone(), 1));
        after = page.reached;
    }
    assert!(is_listed);
    let ProjectPage { projects, .. } = subject.store().list_projects(Some(&unknown), 100).await.expect(OK);
    assert!(projects.iter().all(|(project, _)| project != subject.project()));
}
