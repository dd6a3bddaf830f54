//! The state of one evaluation: its remaining budget and the blobs it has loaded. The engine's values must not
//! borrow, so they share this session instead of the scope.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::value::{Object, ObjectRepr};
use minijinja::{Error, ErrorKind, State, Value as Inner};
use windlass_value::{BlobHash, EvalError, EvalErrorKind, Meter, StoredValue, Timestamp, Value};

/// The name under which filters find the session.
pub(super) const SESSION: &str = "__s";

pub(super) struct EvalSession {
    fuel: AtomicU64,
    written: AtomicUsize,
    max_bytes: usize,
    pub now: Timestamp,
    seed: u64,
    /// The numbers of the run and of its parent, which are text in JSON.
    pub run_numbers: [i64; 2],
    draws: AtomicU64,
    /// Set when the fuel has run out: the engine may treat that error as a value and continue.
    out_of_fuel: AtomicBool,
    blobs: Mutex<Blobs>,
}

#[derive(Default)]
struct Blobs {
    loaded: HashMap<BlobHash, Value>,
    requested: Vec<Arc<StoredValue>>,
}

impl fmt::Debug for EvalSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the session")
    }
}

impl Object for EvalSession {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

impl EvalSession {
    pub(crate) fn new(meter: &Meter, now: Timestamp, seed: u64) -> EvalSession {
        EvalSession {
            fuel: AtomicU64::new(meter.fuel),
            written: AtomicUsize::new(0),
            max_bytes: meter.max_output_bytes,
            now,
            seed,
            run_numbers: [0; 2],
            draws: AtomicU64::new(0),
            out_of_fuel: AtomicBool::new(false),
            blobs: Mutex::default(),
        }
    }

    /// Sets the numbers of the run and of its parent.
    pub(crate) fn with_run(self, execution_id: i64, parent: Option<i64>) -> EvalSession {
        EvalSession { run_numbers: [execution_id, parent.unwrap_or_default()], ..self }
    }

    pub(crate) fn from_state(state: &State) -> Option<Arc<EvalSession>> {
        state.lookup(SESSION)?.downcast_object()
    }

    /// Spends fuel for work that the engine does not count, such as items that filters visit.
    pub(crate) fn spend(&self, amount: u64) -> Result<(), EvalError> {
        let mut meter = Meter::new(self.fuel.load(Ordering::Relaxed), self.max_bytes);
        let result = meter.spend(amount);
        if result.is_err() {
            self.out_of_fuel.store(true, Ordering::Relaxed);
        }
        self.fuel.store(meter.fuel, Ordering::Relaxed);
        result
    }

    /// Fails if the fuel has run out, for an evaluation that continued past that error.
    pub(crate) fn check_fuel(&self) -> Result<(), EvalError> {
        if self.out_of_fuel.load(Ordering::Relaxed) { Meter::new(0, self.max_bytes).spend(1) } else { Ok(()) }
    }

    pub(crate) fn fuel_left(&self) -> u64 {
        self.fuel.load(Ordering::Relaxed)
    }

    /// Fails if a value may not be this large.
    pub(crate) fn check_size(&self, bytes: usize) -> Result<(), EvalError> {
        Meter::new(0, self.max_bytes).check_size(bytes)
    }

    /// Checks that a string of this length may be created, and charges for it.
    pub(crate) fn reserve_text(&self, bytes: usize) -> Result<(), EvalError> {
        self.check_size(bytes)?;
        self.spend(bytes as u64 / 32)
    }

    /// Counts written bytes; their sum is the size of one result.
    pub(crate) fn count_output(&self, bytes: usize) -> Result<(), EvalError> {
        let total = self.written.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        Meter::new(0, self.max_bytes).check_size(total)
    }

    /// Returns the content of a stored value, or records that it is requested.
    pub(crate) fn load(&self, stored: &Arc<StoredValue>) -> Result<Value, EvalError> {
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        match blobs.loaded.get(&stored.hash) {
            Some(value) => Ok(value.clone()),
            None => {
                blobs.requested.push(stored.clone());
                Err(EvalError::need_blobs(vec![stored.hash]))
            }
        }
    }

    pub(crate) fn take_requested(&self) -> Vec<Arc<StoredValue>> {
        std::mem::take(&mut self.blobs.lock().unwrap_or_else(PoisonError::into_inner).requested)
    }

    /// Returns a session that repeats the evaluation with these values loaded.
    pub(crate) fn with_loaded(&self, loaded: Vec<(BlobHash, Value)>, meter: &Meter) -> EvalSession {
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = std::mem::take(&mut blobs.loaded);
        known.extend(loaded);
        let blobs = Mutex::new(Blobs { loaded: known, requested: Vec::new() });
        EvalSession { blobs, run_numbers: self.run_numbers, ..EvalSession::new(meter, self.now, self.seed) }
    }

    /// Returns the next random number. It derives from the tick's seed, so a replay draws the same numbers.
    pub(crate) fn random(&self) -> u64 {
        let draw = self.draws.fetch_add(1, Ordering::Relaxed);
        let mut z = self.seed.wrapping_add(draw.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// One of our errors on its way through the engine.
#[derive(Debug)]
struct CarriedError(EvalError);

impl fmt::Display for CarriedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for CarriedError {}

pub(super) fn to_engine_error(error: EvalError) -> Error {
    Error::new(ErrorKind::InvalidOperation, error.message.clone()).with_source(CarriedError(error))
}

/// Converts an error of the engine to one of ours.
pub(super) fn from_engine_error(error: &Error) -> EvalError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = source {
        if let Some(CarriedError(ours)) = inner.downcast_ref::<CarriedError>() {
            return ours.clone();
        }
        source = inner.source();
    }
    let detail = || error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.kind() {
        ErrorKind::OutOfFuel => Meter::new(0, 0).spend(1).err().unwrap_or_else(|| fuel_error(detail())),
        ErrorKind::UndefinedError => EvalError::new(EvalErrorKind::Missing, detail()),
        ErrorKind::TooManyArguments => EvalError::new(EvalErrorKind::Type, format!("too many arguments: {}", detail())),
        ErrorKind::MissingArgument => EvalError::new(EvalErrorKind::Type, "an argument is missing"),
        _ => EvalError::new(EvalErrorKind::Type, detail()),
    }
}

fn fuel_error(message: String) -> EvalError {
    EvalError::new(EvalErrorKind::Limit, message)
}

pub(super) fn session_value(session: &Arc<EvalSession>) -> Inner {
    Inner::from_dyn_object(session.clone())
}
