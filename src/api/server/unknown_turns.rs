//! Turns of unknown clients: however many there are, they use the time that the others leave.
//!
//! The first steps of a connection have turns of their own. So a new client, who has to become
//! known, does not wait for all those who stay unknown. Each request over HTTP/2 has a task of its
//! own, whose steps are steps of its connection.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::ready;

use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio_util::sync::PollSemaphore;

use super::connection::Connection;

/// Number of steps that new connections of unknown clients take, and the same number for other
/// ones, before each other task that can run has run once.
const STEPS_PER_ROUND: usize = 4;
/// Number of steps after which a connection is not new any more. A handshake and a request take
/// about six.
const FIRST_STEPS: usize = 16;

/// The steps that unknown clients may still take in this round.
#[derive(Clone)]
pub(super) struct UnknownTurns {
    first: Arc<Semaphore>,
    further: Arc<Semaphore>,
}

impl UnknownTurns {
    pub(super) fn new() -> Self {
        let [first, further] = [(); 2].map(|()| Arc::new(Semaphore::new(STEPS_PER_ROUND)));
        Self { first, further }
    }

    /// Serves a connection, or a request of it. As long as its client is unknown, each step waits
    /// for its turn.
    pub(super) fn serve<F: Future>(
        &self,
        connection: Arc<Connection>,
        serve: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let (mut turns, further) = (Some(PollSemaphore::new(self.first.clone())), self.further.clone());
        let mut is_new = true;
        async move {
            let mut serve = pin!(serve);
            poll_fn(|context| {
                if connection.is_known() {
                    // A turn that is still awaited would be lost.
                    turns = None;
                }
                let Some(turns) = &mut turns else {
                    return serve.as_mut().poll(context);
                };
                if is_new && connection.unknown_steps() >= FIRST_STEPS {
                    is_new = false;
                    *turns = PollSemaphore::new(further.clone());
                }
                let turn = ready!(turns.poll_acquire(context));
                connection.note_unknown_step();
                let served = serve.as_mut().poll(context);
                tokio::spawn(async move {
                    // This completes when the tasks that can run now have run.
                    yield_now().await;
                    drop(turn);
                });
                served
            })
            .await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;
    use std::time::{Duration, Instant};

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::api::server::unsent::UnsentParts;
    use crate::authentication::Peer;

    const CLIENTS: usize = 100;
    const ROUNDS: usize = 50;

    fn connection() -> Arc<Connection> {
        let peer = Peer::new(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let unsent = UnsentParts::new(Duration::MAX);
        Arc::new(Connection::new(peer, Instant::now(), unsent, CancellationToken::new()))
    }

    /// Serves a new client that sends what takes this number of steps. Returns its connection and
    /// the number of its steps.
    fn serve_client(turns: &UnknownTurns, max: usize) -> (Arc<Connection>, Arc<AtomicUsize>) {
        let connection = connection();
        (connection.clone(), serve_request(turns, connection, max))
    }

    /// Serves a request of a client that takes this number of steps, and returns their number.
    fn serve_request(turns: &UnknownTurns, connection: Arc<Connection>, max: usize) -> Arc<AtomicUsize> {
        let steps = Arc::new(AtomicUsize::new(0));
        let counted = steps.clone();
        let serve = poll_fn(move |context| {
            if counted.fetch_add(1, Ordering::Relaxed) < max {
                context.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        });
        tokio::spawn(turns.serve(connection, serve));
        steps
    }

    /// Lets all tasks run in turn.
    async fn run_rounds() {
        for _ in 0..ROUNDS {
            yield_now().await;
        }
    }

    fn sum(steps: &[(Arc<Connection>, Arc<AtomicUsize>)]) -> usize {
        steps.iter().map(|(_, steps)| steps.swap(0, Ordering::Relaxed)).sum()
    }

    #[tokio::test]
    async fn many_unknown_clients_take_few_steps_beside_others_and_known_ones_take_all() {
        let turns = UnknownTurns::new();
        let clients = [(); CLIENTS].map(|()| serve_client(&turns, usize::MAX));

        run_rounds().await;
        let unknown = sum(&clients);
        for (connection, _) in &clients {
            connection.note_known();
        }
        run_rounds().await;

        assert!((ROUNDS..=(ROUNDS + 2) * 2 * STEPS_PER_ROUND).contains(&unknown), "{unknown} steps");
        assert!(sum(&clients) > CLIENTS * ROUNDS / 2);
    }

    #[tokio::test]
    async fn a_new_client_does_not_wait_for_the_requests_of_all_those_who_stay_unknown() {
        let turns = UnknownTurns::new();
        let old = [(); CLIENTS].map(|()| connection());
        for connection in old.iter().cycle().take(3 * CLIENTS) {
            serve_request(&turns, connection.clone(), usize::MAX);
        }
        while old.iter().any(|connection| connection.unknown_steps() < FIRST_STEPS) {
            yield_now().await;
        }
        // Later requests of a connection are not new.
        for connection in &old {
            serve_request(&turns, connection.clone(), usize::MAX);
        }

        let new = [serve_client(&turns, usize::MAX)];
        for _ in 0..FIRST_STEPS {
            yield_now().await;
        }

        assert!(sum(&new) >= FIRST_STEPS / 2);
    }

    #[tokio::test]
    async fn a_client_that_becomes_known_while_it_waits_leaves_its_turn_to_others() {
        let turns = UnknownTurns::new();
        let clients = [(); CLIENTS].map(|()| serve_client(&turns, 2));
        yield_now().await;
        for (connection, _) in &clients {
            connection.note_known();
        }
        run_rounds().await;

        let unknown = [serve_client(&turns, 2)];
        run_rounds().await;

        assert!(sum(&unknown) > 0);
    }
}
