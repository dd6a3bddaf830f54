//! Connection pools, one per credential.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration as StdDuration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Statement};

use super::PostgresOptions;
use super::connect::{PgTls, connection_target, describe_server, outbound_policy, resolve_hosts};
use super::failure::PgFailure;
use super::rows::{self, RowReader};
use crate::credentials::Credential;
use crate::outbound::Outbound;

/// Maximum number of plans cached per connection.
const MAX_PLANS: usize = 256;
const MAX_POOLS: usize = 64;

/// One pool per credential. A credential with a changed password is another credential.
#[derive(Default)]
pub(super) struct PgPools(Mutex<Vec<(Credential, Arc<PgPool>)>>);

impl PgPools {
    pub(super) fn pool_for(&self, facts: &Credential, options: &PostgresOptions) -> Result<Arc<PgPool>, PgFailure> {
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = pools.iter().find(|(known, _)| known == facts) {
            return Ok(pool.clone());
        }
        let (config, tls) = connection_target(facts)?;
        let slots = Arc::new(Semaphore::new(options.max_connections.max(1)));
        let connect_timeout = options.connect_timeout.to_std();
        let server = describe_server(&config, facts);
        let outbound = outbound_policy(&options.outbound, &config, facts);
        let pool = Arc::new(PgPool { server, config, tls, outbound, slots, connect_timeout, idle: Mutex::default() });
        if pools.len() >= MAX_POOLS {
            pools.remove(0);
        }
        pools.push((facts.clone(), pool.clone()));
        Ok(pool)
    }
}

pub(super) struct PgPool {
    /// Host, port and alias, for messages.
    server: String,
    config: Config,
    tls: PgTls,
    outbound: Outbound,
    slots: Arc<Semaphore>,
    connect_timeout: StdDuration,
    idle: Mutex<Vec<PgConnection>>,
}

impl PgPool {
    pub(super) async fn take(self: &Arc<PgPool>, cancelling: &PendingCancel) -> Result<BusyConnection, PgFailure> {
        let slot = self.slots.clone().acquire_owned().await.map_err(|_| PgFailure::lost("the pool is closed"))?;
        let kept = self.take_idle();
        let connection = match kept {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(BusyConnection {
            connection: Some(connection),
            pool: self.clone(),
            cancelling: cancelling.clone(),
            _slot: slot,
        })
    }

    /// Replaces a broken connection by a new one.
    pub(super) async fn reconnect(self: &Arc<PgPool>, mut old: BusyConnection) -> Result<BusyConnection, PgFailure> {
        old.connection = None;
        let connection = self.connect().await?;
        Ok(old.with_connection(connection))
    }

    fn take_idle(&self) -> Option<PgConnection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| !connection.client.is_closed());
        let connection = idle.pop()?;
        Some(PgConnection { is_reused: true, has_run: false, ..connection })
    }

    async fn connect(&self) -> Result<PgConnection, PgFailure> {
        let connecting = async {
            let config = resolve_hosts(&self.config, &self.outbound, &self.server).await?;
            config.connect(self.tls.clone()).await.map_err(|error| PgFailure::from_connecting(error, &self.server))
        };
        let connected = tokio::time::timeout(self.connect_timeout, connecting).await;
        let (client, wire) = connected.map_err(|_| {
            PgFailure::unreachable(
                &self.server,
                &format!(
                    "no connection within {:?} (`limits.max_connect_time` in windlass.toml)",
                    self.connect_timeout
                ),
            )
        })??;
        // Ends with the connection. The client reports its errors, too.
        tokio::spawn(async move {
            let _ = wire.await;
        });
        Ok(PgConnection { client, plans: BTreeMap::new(), is_reused: false, has_run: false })
    }
}

/// Maximum time that a stopped call waits until its cancel request has been sent.
const MAX_CANCEL_WAIT: StdDuration = StdDuration::from_secs(1);

/// The cancel request of a stopped call.
#[derive(Clone, Default)]
pub(super) struct PendingCancel(Arc<Mutex<Option<JoinHandle<()>>>>);

impl PendingCancel {
    /// Waits until the cancel request has been sent. The process may exit as soon as the call returns, so the server
    /// must receive the request before.
    pub(super) async fn wait_sent(&self) {
        let sending = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sending) = sending {
            // The request continues in the background if it takes longer.
            let _ = tokio::time::timeout(MAX_CANCEL_WAIT, sending).await;
        }
    }
}

/// A connection in use. Dropping it during a statement sends a cancel request to the server and closes the
/// connection.
pub(super) struct BusyConnection {
    connection: Option<PgConnection>,
    pool: Arc<PgPool>,
    cancelling: PendingCancel,
    _slot: OwnedSemaphorePermit,
}

impl BusyConnection {
    /// Returns true if the connection is reused from an earlier call and has run no statement of this call: the server
    /// may have closed it.
    pub(super) fn is_stale(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_reused && !connection.has_run)
    }

    pub(super) fn running(&mut self) -> Result<&mut PgConnection, PgFailure> {
        self.connection.as_mut().ok_or_else(|| PgFailure::lost("there is no connection"))
    }

    fn with_connection(mut self, connection: PgConnection) -> BusyConnection {
        self.connection = Some(connection);
        self
    }

    /// Ends the use. The connection returns to the pool unless the statements left state in it.
    pub(super) fn finish(mut self, clean: bool) {
        let Some(connection) = self.connection.take() else { return };
        if clean && !connection.client.is_closed() {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}

impl Drop for BusyConnection {
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

pub(super) struct PgConnection {
    pub(super) client: Client,
    plans: BTreeMap<String, Arc<PreparedStatement>>,
    is_reused: bool,
    /// A statement of this call has been sent for execution.
    pub(super) has_run: bool,
}

pub(super) struct PreparedStatement {
    pub(super) statement: Statement,
    pub(super) reader: RowReader,
}

impl PgConnection {
    pub(super) async fn prepare(&mut self, sql: &str, keep: bool) -> Result<Arc<PreparedStatement>, PgFailure> {
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

    /// Returns true if the statement is already prepared.
    pub(super) fn has_prepared(&self, sql: &str) -> bool {
        self.plans.contains_key(sql)
    }

    pub(super) async fn prepare_typed(
        &mut self,
        sql: &str,
        types: &[Type],
    ) -> Result<Arc<PreparedStatement>, PgFailure> {
        let mut statement = self.client.prepare_typed(sql, types).await?;
        let names: Vec<Arc<str>> = statement.columns().iter().map(|column| column.name().into()).collect();
        if let Some(as_text) = rows::as_text(sql, statement.columns()) {
            statement = self.client.prepare_typed(&as_text, types).await?;
        }
        let reader = RowReader::new(names, statement.columns());
        Ok(Arc::new(PreparedStatement { statement, reader }))
    }

    pub(super) fn forget(&mut self, sql: &str) {
        self.plans.remove(sql);
    }
}
