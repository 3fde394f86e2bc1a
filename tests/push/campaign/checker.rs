//! Verifies a history.
//!
//! - Nothing is lost: the endpoint of each subscription has acknowledged each message of its queue.
//! - Nothing else is delivered: each request has the id of a message that was posted to the queue.
//! - An ordered subscription gets one message at a time in the order of the feed. The next message
//!   follows when the last one is acknowledged, and a message that is not acknowledged is repeated.
//!   Only after a kill does the subscription go back.
//! - Two requests with the same message do not overlap, unless a process was killed meanwhile.
//! - A message that was acknowledged is delivered again only if a process was killed before it had
//!   saved that. It saves outcomes within [`UNSAVED_MAX_US`] while the store is up.

use std::collections::HashMap;
use std::fmt::{self, Display};

use super::history::{Disturbance, DisturbanceKind, History, Request};
use support::timeline::Moment;

/// Maximum time until an outcome is saved: the interval of the service, which is 100 ms, and slack
/// for a machine on which other tests run. With a load of 20 on two cores, 1.9 s were seen.
const UNSAVED_MAX_US: u64 = 100_000 + 3_400_000;
/// Time after an outage until processes use the store again: their pauses before they connect, and
/// slack as above.
const RECOVERY_US: u64 = 1_500_000;
/// Time for which the request of a killed process may wait until the endpoint reads it, if the
/// machine is busy.
const UNREAD_US: u64 = 700_000;

/// The figures of a history that breaks no rule.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) requests: usize,
    pub(super) deliveries: usize,
    /// Deliveries of messages that were acknowledged before.
    pub(super) duplicates: usize,
    /// Longest time for which an outcome was not saved although the store was up.
    pub(super) unsaved_max_us: u64,
    pub(super) kills: usize,
    pub(super) outages: usize,
    pub(super) stops: usize,
    pub(super) seconds: u64,
}

impl Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, deliveries, duplicates, unsaved_max_us, kills, outages, stops, seconds } = self;
        write!(f, "{deliveries} deliveries in {requests} requests and {seconds} s, {duplicates} duplicates, ")?;
        write!(f, "{kills} kills, {outages} outages, {stops} stops; ")?;
        write!(f, "unsaved for at most {} ms", unsaved_max_us / 1_000)
    }
}

/// Checks all rules.
///
/// # Errors
///
/// The first violation.
pub(super) fn check(history: &History) -> Result<Summary, String> {
    check_messages(history)?;
    let mut by_message: HashMap<(usize, usize), Vec<&Request>> = HashMap::new();
    for request in &history.requests {
        by_message.entry((request.subscription, request.message)).or_default().push(request);
    }
    check_nothing_is_lost(history, &by_message)?;
    let mut summary = Summary {
        requests: history.requests.len(),
        deliveries: history.requests.iter().filter(|request| request.acknowledged().is_some()).count(),
        kills: history.of_kind(DisturbanceKind::Kill).count(),
        outages: history.of_kind(DisturbanceKind::Outage).count(),
        stops: history.of_kind(DisturbanceKind::Stop).count(),
        seconds: history.requests.last().map_or(0, |request| request.received / 1_000_000),
        ..Summary::default()
    };
    for requests in by_message.values() {
        check_overlap(history, requests)?;
        check_repetitions(history, requests, &mut summary)?;
    }
    for (number, _) in history.subscriptions.iter().enumerate().filter(|(_, subscriber)| subscriber.is_ordered) {
        let requests: Vec<&Request> =
            history.requests.iter().filter(|request| request.subscription == number).collect();
        check_overlap(history, &requests)?;
        check_order(history, &requests)?;
    }
    Ok(summary)
}

fn check_messages(history: &History) -> Result<(), String> {
    for request in &history.requests {
        let queue = history.subscriptions.get(request.subscription).map(|subscriber| subscriber.queue);
        let posted = queue.and_then(|queue| history.posted.get(queue)?.get(request.message));
        if posted != Some(&request.message_id) {
            return Err(format!("a message that was not posted: {}, but {posted:?}", describe(request)));
        }
    }
    Ok(())
}

fn check_nothing_is_lost(history: &History, by_message: &HashMap<(usize, usize), Vec<&Request>>) -> Result<(), String> {
    for (number, subscriber) in history.subscriptions.iter().enumerate() {
        for message in 0..history.posted[subscriber.queue].len() {
            let requests = by_message.get(&(number, message)).map_or(&[][..], Vec::as_slice);
            if !requests.iter().any(|request| request.acknowledged().is_some()) {
                let count = requests.len();
                return Err(format!("message {message} is lost to subscription {number} after {count} requests"));
            }
        }
    }
    Ok(())
}

/// Checks that each request has ended before the next one, unless a kill is between.
fn check_overlap(history: &History, requests: &[&Request]) -> Result<(), String> {
    for pair in requests.windows(2) {
        let [first, second] = pair else { continue };
        let has_ended = first.ended.is_some_and(|ended| ended <= second.received);
        if !has_ended && !is_kill_between(history, first, second) {
            return Err(format!("requests overlap: {} and {}", describe(first), describe(second)));
        }
    }
    Ok(())
}

/// Checks that a message is delivered again only if its last acknowledgment was not saved.
fn check_repetitions(history: &History, requests: &[&Request], summary: &mut Summary) -> Result<(), String> {
    let mut last: Option<(&Request, u64)> = None;
    for request in requests {
        if let Some((acknowledged, at)) = last {
            let kills = kills_between(history, acknowledged, request);
            let queue = history.subscriptions[request.subscription].queue;
            let unsaved_us = kills.map(|kill| unsaved_us(history, queue, at, kill)).min();
            if unsaved_us.is_none_or(|us| us > UNSAVED_MAX_US) {
                let reason = match unsaved_us {
                    Some(us) => format!("its outcome could have been saved for {} s before a kill", Moment(us)),
                    None => "no process was killed".to_owned(),
                };
                return Err(format!("delivered again: {} and {}: {reason}", describe(acknowledged), describe(request)));
            }
            summary.duplicates += 1;
            summary.unsaved_max_us = summary.unsaved_max_us.max(unsaved_us.unwrap_or_default());
        }
        last = request.acknowledged().map(|at| (*request, at)).or(last);
    }
    Ok(())
}

/// Checks the order of the requests of one subscription.
fn check_order(history: &History, requests: &[&Request]) -> Result<(), String> {
    let first = requests.first().map_or(0, |request| request.message);
    if first != 0 {
        return Err(format!("the first message is skipped: {}", describe(requests[0])));
    }
    for pair in requests.windows(2) {
        let [first, second] = pair else { continue };
        let is_acknowledged = first.acknowledged().is_some_and(|at| at <= second.received);
        let next = first.message + usize::from(is_acknowledged);
        // After a kill, the outcomes of some messages are not known any more.
        let is_back = second.message < next && is_kill_between(history, first, second);
        if second.message != next && !is_back {
            return Err(format!("out of order: {} and {}", describe(first), describe(second)));
        }
    }
    Ok(())
}

/// Returns the time (µs) from an acknowledgment to a kill during which the store of the queue was
/// up.
fn unsaved_us(history: &History, queue: usize, acknowledged: u64, kill: &Disturbance) -> u64 {
    let mut outages: Vec<(u64, u64)> =
        history.outages(queue).map(|outage| (outage.from, outage.to + RECOVERY_US)).collect();
    outages.sort_unstable();
    let (mut unsaved_us, mut from) = (0, acknowledged);
    for (begin, end) in outages {
        unsaved_us += begin.min(kill.from).saturating_sub(from);
        from = from.max(end);
    }
    unsaved_us + kill.from.saturating_sub(from)
}

fn is_kill_between(history: &History, first: &Request, second: &Request) -> bool {
    kills_between(history, first, second).next().is_some()
}

/// Returns the kills after the first request was sent and before the second one was received.
fn kills_between<'a>(
    history: &'a History,
    first: &Request,
    second: &Request,
) -> impl Iterator<Item = &'a Disturbance> + use<'a> {
    let (from, to) = (first.received.saturating_sub(UNREAD_US), second.received);
    history.of_kind(DisturbanceKind::Kill).filter(move |kill| kill.to >= from && kill.from <= to)
}

fn describe(request: &Request) -> String {
    let Request { subscription, message, message_id, received, ended, status } = request;
    let ended = ended.map_or("never".to_owned(), |at| Moment(at).to_string());
    let received = Moment(*received);
    format!("subscription {subscription}, message {message} ({message_id}), {received} to {ended}, {status:?}")
}

#[cfg(test)]
mod tests {
    use super::super::history::{Affected, Subscriber};
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    fn id(message: usize) -> String {
        format!("message-{message}")
    }

    /// An acknowledged request to a subscription, which takes a millisecond.
    fn delivered(subscription: usize, message: usize, received: u64) -> Request {
        let ended = Some(received + 1_000);
        Request { subscription, message, message_id: id(message), received, ended, status: Some(204) }
    }

    fn failed(subscription: usize, message: usize, received: u64) -> Request {
        Request { status: Some(500), ..delivered(subscription, message, received) }
    }

    fn during(kind: DisturbanceKind, from: u64, to: u64) -> Disturbance {
        Disturbance { kind, affected: Affected::All, from, to }
    }

    fn kill(at: u64) -> Disturbance {
        during(DisturbanceKind::Kill, at, at + 1_000)
    }

    /// A queue with three messages, an ordered subscription (0) and an unordered one (1) that has
    /// received them all before the time 0.
    fn history(of_ordered: Vec<Request>, disturbances: Vec<Disturbance>) -> History {
        let mut requests: Vec<Request> = (0..3).map(|message| delivered(1, message, 0)).collect();
        requests.extend(of_ordered);
        History {
            subscriptions: vec![Subscriber { queue: 0, is_ordered: true }, Subscriber { queue: 0, is_ordered: false }],
            posted: vec![(0..3).map(id).collect()],
            requests,
            disturbances,
        }
    }

    fn in_order() -> Vec<Request> {
        (0..3).map(|message| delivered(0, message, (message as u64 + 1) * SECOND_US)).collect()
    }

    #[track_caller]
    fn assert_violation(history: &History, expected: &str) {
        let violation = check(history).expect_err("a rule is broken");
        assert!(violation.contains(expected), "{violation}");
    }

    #[test]
    fn deliveries_in_order_with_failures_are_correct() {
        let mut requests = in_order();
        requests.insert(1, failed(0, 1, 1_500_000));

        let summary = check(&history(requests, Vec::new())).unwrap();

        assert_eq!((summary.requests, summary.deliveries, summary.duplicates), (7, 6, 0));
    }

    #[test]
    fn a_message_without_an_acknowledgment_is_lost() {
        let mut requests = in_order();
        requests[2].status = Some(500);
        assert_violation(&history(requests.clone(), Vec::new()), "message 2 is lost to subscription 0 after 1 request");
        requests.pop();
        assert_violation(&history(requests, vec![kill(0)]), "message 2 is lost to subscription 0 after 0 requests");
    }

    #[test]
    fn a_message_that_was_not_posted_is_found() {
        let mut requests = in_order();
        requests.push(delivered(0, 3, 4 * SECOND_US));
        assert_violation(&history(requests, vec![kill(0)]), "not posted");

        let mut requests = in_order();
        requests[1].message_id = id(7);
        assert_violation(&history(requests, vec![kill(0)]), "not posted");
    }

    #[test]
    fn a_delivery_again_needs_a_kill() {
        let mut requests = in_order();
        requests.push(delivered(0, 2, 4 * SECOND_US));
        let stop = during(DisturbanceKind::Stop, 3 * SECOND_US, 4 * SECOND_US);
        let outage = during(DisturbanceKind::Outage, 3 * SECOND_US, 4 * SECOND_US);
        assert_violation(&history(requests.clone(), vec![stop, outage]), "no process was killed");

        let killed = kill(3 * SECOND_US + 90_000);
        let summary = check(&history(requests, vec![killed])).unwrap();
        assert_eq!((summary.duplicates, summary.unsaved_max_us), (1, 89_000));
    }

    #[test]
    fn a_kill_after_the_outcome_was_saved_excuses_no_delivery_again() {
        let mut requests = in_order();
        requests.push(delivered(0, 2, 12 * SECOND_US));
        let killed = kill(3 * SECOND_US + UNSAVED_MAX_US + 2_000);
        assert_violation(&history(requests.clone(), vec![killed]), "could have been saved for 3.501000 s");

        let outage = during(DisturbanceKind::Outage, 3 * SECOND_US + 200_000, 5 * SECOND_US);
        check(&history(requests.clone(), vec![outage, kill(6_700_000)])).unwrap();
        let elsewhere = Disturbance { affected: Affected::Pool(1), ..outage };
        assert_violation(&history(requests.clone(), vec![elsewhere, kill(6_700_000)]), "could have been saved");
        assert_violation(&history(requests, vec![outage, kill(10_000_000)]), "could have been saved");
    }

    #[test]
    fn a_kill_before_the_delivery_or_after_the_next_one_excuses_nothing() {
        let mut requests = in_order();
        requests.push(delivered(0, 2, 4 * SECOND_US));

        let kills = vec![kill(2 * SECOND_US), kill(5 * SECOND_US)];

        assert_violation(&history(requests, kills), "no process was killed");
    }

    #[test]
    fn each_delivery_again_needs_a_kill_of_its_own() {
        let mut requests = in_order();
        requests.push(delivered(0, 2, 4 * SECOND_US));
        requests.push(delivered(0, 2, 5 * SECOND_US));

        let kills = vec![kill(3 * SECOND_US + 1_000)];

        assert_violation(&history(requests, kills), "no process was killed");
    }

    #[test]
    fn an_ordered_subscription_skips_nothing() {
        let mut requests = in_order();
        (requests[1].message, requests[1].message_id) = (2, id(2));
        (requests[2].message, requests[2].message_id) = (1, id(1));
        assert_violation(&history(requests.clone(), Vec::new()), "out of order");
        assert_violation(&history(requests, vec![kill(SECOND_US + 1_000)]), "out of order");

        let mut requests = in_order();
        for (number, request) in requests.iter_mut().enumerate() {
            (request.message, request.message_id) = ((number + 1) % 3, id((number + 1) % 3));
        }
        assert_violation(&history(requests, Vec::new()), "the first message is skipped");
    }

    #[test]
    fn the_next_message_waits_for_the_acknowledgment() {
        let mut requests = in_order();
        requests.insert(1, failed(0, 1, 1_100_000));
        requests.insert(2, failed(0, 2, 1_200_000));
        assert_violation(&history(requests, Vec::new()), "out of order");

        let mut requests = in_order();
        requests[0].ended = Some(2 * SECOND_US + 1);
        assert_violation(&history(requests, Vec::new()), "overlap");
    }

    #[test]
    fn an_ordered_subscription_goes_back_only_after_a_kill() {
        let mut requests = in_order();
        requests[2].received = 2 * SECOND_US + 5_000;
        requests.extend([delivered(0, 1, 5 * SECOND_US), delivered(0, 2, 6 * SECOND_US)]);
        check(&history(requests.clone(), vec![kill(2 * SECOND_US + 7_000)])).unwrap();

        requests.push(failed(0, 1, 7 * SECOND_US));
        assert_violation(&history(requests, vec![kill(2 * SECOND_US + 7_000)]), "delivered again");

        let mut requests = in_order();
        requests.insert(1, failed(0, 1, SECOND_US + 100_000));
        requests.insert(2, failed(0, 0, SECOND_US + 200_000));
        // The kill excuses the repetition of message 0, but it was before message 1.
        assert_violation(&history(requests, vec![kill(SECOND_US + 10_000)]), "out of order");
    }

    #[test]
    fn requests_with_the_same_message_overlap_only_around_a_kill() {
        let mut one = history(in_order(), Vec::new());
        let hung = Request { ended: None, status: None, ..delivered(1, 1, 0) };
        one.requests.insert(0, hung);
        assert_violation(&one, "overlap");

        one.disturbances.push(kill(0));
        check(&one).unwrap();
    }
}
