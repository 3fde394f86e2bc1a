//! Calls the functions of the library, and loads it into a server that does not have it.
//!
//! Redis refuses to load a library, or to call a function that may write, when its memory is full,
//! when it has too few replicas, or when its disk has failed. The same text then runs as a script,
//! which Redis refuses only at the first command that it must not run. So a repeated post is still
//! answered, and a full server that has lost the library can still be emptied. A user that may not
//! call functions gets the same, at several times the cost.

use std::time::Duration;

use fred::bytes_utils::Str;
use fred::clients::Client;
use fred::error::Error as FredError;
use fred::interfaces::{ClientLike, FunctionInterface, LuaInterface};
use fred::types::{ClusterHash, CustomCommand, Key, Value};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::redis::library::Library;

/// How long a server runs scripts after it has refused to load the library or to call functions.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_secs(5);

/// What is known about the functions of one server.
#[derive(Default)]
pub(super) struct Functions {
    /// Held while the library is loaded.
    loading: AsyncMutex<()>,
    /// When the server last refused to load the library, or to let the user call functions. `None`
    /// while it runs functions.
    refused_at: Mutex<Option<Instant>>,
}

impl Functions {
    /// Calls a function of the library on the server, whose client this is.
    pub(super) async fn call(
        &self,
        library: &Library,
        client: Client,
        function: Str,
        keys: Vec<Key>,
        args: Vec<Value>,
    ) -> Result<Value, FredError> {
        if !self.are_paused() {
            let mut reply = client.fcall(function.clone(), keys.clone(), args.clone()).await;
            if reply.as_ref().is_err_and(is_missing) {
                reply = self.load_and_call(library, &client, &function, &keys, &args).await;
            }
            match reply {
                Err(error) if has_no_functions(&error) => self.pause(&error),
                // The library may have been lost again since it was loaded.
                Err(error) if is_refused(&error) || is_missing(&error) => {}
                reply => {
                    if reply.is_ok() {
                        self.resume();
                    }
                    return reply;
                }
            }
        }
        let args: Vec<Value> = args.into_iter().chain([Value::from(function)]).collect();
        match client.evalsha(&*library.script_sha, keys.clone(), args.clone()).await {
            Err(error) if is_missing(&error) => client.eval(&*library.script, keys, args).await,
            reply => reply,
        }
    }

    /// Loads the library, unless another task has done so meanwhile.
    async fn load_and_call(
        &self,
        library: &Library,
        client: &Client,
        function: &Str,
        keys: &[Key],
        args: &[Value],
    ) -> Result<Value, FredError> {
        let _loading = self.loading.lock().await;
        let call = || client.fcall(function.clone(), keys.to_vec(), args.to_vec());
        match call().await {
            Err(error) if is_missing(&error) => {}
            reply => return reply,
        }
        let load = CustomCommand::new_static("FUNCTION", ClusterHash::Random, false);
        let args = ["LOAD", &library.text].map(Value::from).to_vec();
        match client.custom::<Value, Value>(load, args).await {
            // Another process was faster.
            Err(error) if error.details().contains("already exists") => {}
            Err(error) => {
                if is_refused(&error) {
                    self.pause(&error);
                }
                return Err(error);
            }
            Ok(_name) => {}
        }
        call().await
    }

    /// Returns whether scripts replace functions at the moment.
    fn are_paused(&self) -> bool {
        self.refused_at.lock().is_some_and(|at| at.elapsed() < PAUSE_AFTER_REFUSAL)
    }

    /// Lets scripts replace functions for a while.
    fn pause(&self, refusal: &FredError) {
        let refused_before = self.refused_at.lock().replace(Instant::now());
        if refused_before.is_none() {
            let reason = refusal.details();
            warn!(reason, "Redis does not run the functions of Sukkal, and runs slower scripts instead");
        }
    }

    /// Records that the server runs functions.
    fn resume(&self) {
        if self.refused_at.lock().take().is_some() {
            info!("Redis runs the functions of Sukkal again");
        }
    }
}

/// Returns whether the server does not know the function or script.
pub(super) fn is_missing(error: &FredError) -> bool {
    error.details().starts_with("NOSCRIPT") || error.details().contains("Function not found")
}

/// Returns whether the server has refused to call a function, or to load the library, before
/// anything ran.
pub(super) fn is_refused(error: &FredError) -> bool {
    let refusals = ["OOM ", "NOREPLICAS", "MISCONF", "NOPERM", "ERR unknown command"];
    refusals.iter().any(|refusal| error.details().starts_with(refusal))
}

/// Returns whether the user may not call functions, or the server has none.
fn has_no_functions(error: &FredError) -> bool {
    error.details().contains("'fcall'") || error.details().starts_with("ERR unknown command")
}
