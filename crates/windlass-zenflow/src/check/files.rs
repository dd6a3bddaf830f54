//! Checks context files of steps. They are read when the step runs; this module only looks for them.

use std::sync::Arc;

use crate::codes;
use crate::document::{Spanned, WorkflowDocument};
use crate::options::ContextFiles;
use crate::paths::{self, PathError, WorkflowFolder};
use crate::read::DocumentReader;
use windlass_dialect::DiagnosticSink;
use windlass_dialect::{DiskFiles, FileReadProblem};

impl DocumentReader<'_> {
    pub(crate) fn files(&mut self, document: &WorkflowDocument) {
        let lenient = document.extensions.lenient_files;
        for step in document.all_steps() {
            for path in &step.context_files {
                self.context_file(path, lenient);
            }
        }
    }

    fn context_file(&mut self, path: &Spanned<String>, lenient: bool) {
        let elsewhere = match &self.options.context_files {
            ContextFiles::InWorkflowFolder => None,
            ContextFiles::In(folder) => Some(WorkflowFolder::open(folder, Arc::new(DiskFiles))),
            ContextFiles::Refused(hint) => {
                let message =
                    format!("the file `{}` cannot be attached: context files are not available here", path.value);
                return self.error(codes::FILE_REFERENCE, path.span, message, hint.clone());
            }
        };
        // The syntax of the path was already checked; without a folder there is nothing more to check.
        let Some(folder) = elsewhere.as_ref().or(self.folder) else { return };
        let looked = folder.find(path).and_then(|found| folder.files.size(&found).map_err(PathError::File));
        let hint = "the path is relative to the workflow's folder; `x-windlass: {contextFiles: lenient}` lets steps \
                    run without missing files";
        let max_bytes = self.options.limits.max_context_file_bytes;
        match looked {
            Ok(size) if size <= max_bytes => {}
            Err(PathError::File(FileReadProblem::Unavailable)) => {}
            Ok(_) if lenient => {}
            Err(PathError::File(_)) if lenient => {}
            Ok(size) => {
                let message = format!("`{}` has {size} bytes, more than the {max_bytes} of a context file", path.value);
                let hint = "attach less of it, or raise `limits.max_context_file_bytes` in windlass.toml";
                self.error(codes::FILE_REFERENCE, path.span, message, hint);
            }
            Err(PathError::Invalid(why)) => {
                self.error(codes::FILE_REFERENCE, path.span, format!("`{}` {why}", path.value), paths::PATH_HINT);
            }
            Err(PathError::Outside) => {
                let message = format!("`{}` is a link that leads out of the workflow's folder", path.value);
                self.error(codes::FILE_REFERENCE, path.span, message, paths::PATH_HINT);
            }
            Err(PathError::File(problem)) => {
                let message = format!("the file `{}` cannot be attached: {problem}", path.value);
                self.missing_file(&problem, path.span, message, hint);
            }
        }
    }
}
