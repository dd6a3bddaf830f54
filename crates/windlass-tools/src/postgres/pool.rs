//! Connections that are kept, for each credential.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration as StdDuration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Statement};

use super::PostgresOptions;
use super::connect::{Tls, resolve_hosts, outbound_policy, place, target};
use super::failure::Failure;
use super::rows::{self, Reader};
use crate::credentials::Credential;
use crate::outbound::Outbound;

/// Plans that one connection keeps.
const MAX_PLANS: usize = 256;
const MAX_POOLS: usize = 64;

/// One pool for each credential. One whose password was changed is another credential.
#[derive(Default)]
pub(super) struct Pools(Mutex<Vec<(Credential, Arc<Pool>)>>);

impl Pools {
    pub(super) fn of(&self, facts: &Credential, options: &PostgresOptions) -> Result<Arc<Pool>, Failure> {
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = pools.iter().find(|(known, _)| known == facts) {
            return Ok(pool.clone());
        }
        let (config, tls) = target(facts)?;
        let slots = Arc::new(Semaphore::new(options.max_connections.max(1)));
        let connect_timeout = options.connect_timeout.to_std();
        let place = place(&config, facts);
        let outbound = outbound_policy(&options.outbound, &config, facts);
        let pool = Arc::new(Pool { place, config, tls, outbound, slots, connect_timeout, idle: Mutex::default() });
        if pools.len() >= MAX_POOLS {
            pools.remove(0);
        }
        pools.push((facts.clone(), pool.clone()));
        Ok(pool)
    }
}

pub(super) struct Pool {
    /// Host, port and alias, for messages.
    place: String,
    config: Config,
    tls: Tls,
    outbound: Outbound,
    slots: Arc<Semaphore>,
    connect_timeout: StdDuration,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(super) async fn take(self: &Arc<Pool>, cancelling: &PendingCancel) -> Result<Busy, Failure> {
        let slot = self.slots.clone().acquire_owned().await.map_err(|_| Failure::lost("the pool is closed"))?;
        let kept = self.idle();
        let connection = match kept {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(Busy { connection: Some(connection), pool: self.clone(), cancelling: cancelling.clone(), _slot: slot })
    }

    /// A new connection in the place of one that is of no use.
    pub(super) async fn fresh(self: &Arc<Pool>, mut old: Busy) -> Result<Busy, Failure> {
        old.connection = None;
        let connection = self.connect().await?;
        Ok(old.with(connection))
    }

    fn idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| !connection.client.is_closed());
        let connection = idle.pop()?;
        Some(Connection { kept: true, has_run: false, ..connection })
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let connecting = async {
            let config = resolve_hosts(&self.config, &self.outbound, &self.place).await?;
            config.connect(self.tls.clone()).await.map_err(|error| Failure::from_connecting(error, &self.place))
        };
        let connected = tokio::time::timeout(self.connect_timeout, connecting).await;
        let (client, wire) = connected.map_err(|_| {
            Failure::unreachable(
                &self.place,
                &format!(
                    "no connection within {:?} (`limits.max_connect_time` in windlass.toml)",
                    self.connect_timeout
                ),
            )
        })??;
        // Ends with the connection; what goes wrong there, the client says as well.
        tokio::spawn(async move {
            let _ = wire.await;
        });
        Ok(Connection { client, plans: BTreeMap::new(), kept: false, has_run: false })
    }
}

/// How long a call that is given up waits for its cancel request to be with the server.
const MAX_CANCEL_WAIT: StdDuration = StdDuration::from_secs(1);

/// The cancel request of a call that was given up.
#[derive(Clone, Default)]
pub(super) struct PendingCancel(Arc<Mutex<Option<JoinHandle<()>>>>);

impl PendingCancel {
    /// Whoever hears that the call is given up may end the program at once: the server must know before.
    pub(super) async fn wait_sent(&self) {
        let sending = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sending) = sending {
            // Goes on by itself if it takes longer.
            let _ = tokio::time::timeout(MAX_CANCEL_WAIT, sending).await;
        }
    }
}

/// A connection in use. Dropped in the middle, the server is told to cancel what it does, and the connection ends.
pub(super) struct Busy {
    connection: Option<Connection>,
    pool: Arc<Pool>,
    cancelling: PendingCancel,
    _slot: OwnedSemaphorePermit,
}

impl Busy {
    /// The connection was kept from an earlier call, and nothing of this one has been run on it: it may have been closed
    /// on the other side.
    pub(super) fn is_stale(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.kept && !connection.has_run)
    }

    pub(super) fn running(&mut self) -> Result<&mut Connection, Failure> {
        self.connection.as_mut().ok_or_else(|| Failure::lost("there is no connection"))
    }

    fn with(mut self, connection: Connection) -> Busy {
        self.connection = Some(connection);
        self
    }

    /// The statements have ended. The connection is kept, unless they have left something in it.
    pub(super) fn finish(mut self, clean: bool) {
        let Some(connection) = self.connection.take() else { return };
        if clean && !connection.client.is_closed() {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let (token, tls) = (connection.client.cancel_token(), self.pool.tls.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let sending = runtime.spawn(async move {
                let _ = token.cancel_query(tls).await;
                drop(connection);
            });
            *self.cancelling.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sending);
        }
    }
}

pub(super) struct Connection {
    pub(super) client: Client,
    plans: BTreeMap<String, Arc<Prepared>>,
    kept: bool,
    /// A statement of this call has been sent to be run.
    pub(super) has_run: bool,
}

pub(super) struct Prepared {
    pub(super) statement: Statement,
    pub(super) reader: Reader,
}

impl Connection {
    pub(super) async fn prepare(&mut self, sql: &str, keep: bool) -> Result<Arc<Prepared>, Failure> {
        if let Some(prepared) = self.plans.get(sql) {
            return Ok(prepared.clone());
        }
        let prepared = self.prepare_typed(sql, &[]).await?;
        if keep {
            if self.plans.len() >= MAX_PLANS {
                self.plans.clear();
            }
            self.plans.insert(sql.to_owned(), prepared.clone());
        }
        Ok(prepared)
    }

    /// It is prepared already.
    pub(super) fn knows(&self, sql: &str) -> bool {
        self.plans.contains_key(sql)
    }

    pub(super) async fn prepare_typed(&mut self, sql: &str, types: &[Type]) -> Result<Arc<Prepared>, Failure> {
        let mut statement = self.client.prepare_typed(sql, types).await?;
        let names: Vec<Arc<str>> = statement.columns().iter().map(|column| column.name().into()).collect();
        if let Some(as_text) = rows::as_text(sql, statement.columns()) {
            statement = self.client.prepare_typed(&as_text, types).await?;
        }
        let reader = Reader::new(names, statement.columns());
        Ok(Arc::new(Prepared { statement, reader }))
    }

    pub(super) fn forget(&mut self, sql: &str) {
        self.plans.remove(sql);
    }
}
