//! The compile context of a definition.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use windlass_core::Limits;
use windlass_value::Value;

use crate::{FileReader, NoFiles, RegisteredNames};

/// The environment against which a definition is compiled, independent of its dialect.
#[derive(Clone)]
pub struct CompileContext {
    /// Limits of the engine that will run the plan; compilers check definitions against them and build them into plans.
    pub limits: Limits,
    /// The name of a definition that has none itself: usually the file's stem.
    pub name: Option<String>,
    /// The tools that steps may use.
    pub tools: Vec<String>,
    /// Functions and definitions that the engine already has.
    pub registered: RegisteredNames,
    /// Texts that a definition may read by name, such as app settings.
    pub settings: BTreeMap<String, String>,
    /// Values from outside the file for parameters without a value in the file.
    pub parameters: BTreeMap<String, Value>,
    /// Names of steps whose calls are answered by mocks: what they call need not exist, and is not called.
    pub mocked_steps: Vec<String>,
    /// The folder of the definition's file, absolute. `None`: the text came from elsewhere, and no file next to it can
    /// be read.
    pub folder: Option<PathBuf>,
    /// Reads the files next to it.
    pub files: Arc<dyn FileReader>,
    /// Options of single dialects.
    pub options: DialectOptions,
}

impl Default for CompileContext {
    fn default() -> CompileContext {
        CompileContext {
            limits: Limits::default(),
            name: None,
            tools: Vec::new(),
            registered: RegisteredNames::default(),
            settings: BTreeMap::new(),
            parameters: BTreeMap::new(),
            mocked_steps: Vec::new(),
            folder: None,
            files: Arc::new(NoFiles),
            options: DialectOptions::default(),
        }
    }
}

/// Returns whether a step is one of those whose calls are answered by mocks. Letter case does not matter.
pub fn is_mocked_step(mocked_steps: &[String], name: &str) -> bool {
    mocked_steps.iter().any(|mocked| mocked.eq_ignore_ascii_case(name))
}

/// Options of single dialects, each found by its type: the caller sets options for the dialects it knows, and a
/// dialect takes its own.
#[derive(Clone, Default)]
pub struct DialectOptions(BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl DialectOptions {
    /// Adds options; replaces earlier ones of the same type.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, options: T) -> DialectOptions {
        self.0.insert(TypeId::of::<T>(), Arc::new(options));
        self
    }

    /// Returns the options of this type, if there are any.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>()).and_then(|options| options.downcast_ref())
    }
}
