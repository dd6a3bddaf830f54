//! Mail between nodes of a run.

use windlass_value::Value;

use crate::plan::{Post, Wait};
use crate::reduce::eval::Locals;
use crate::reduce::{Reducer, Stop};
use crate::state::{FrameId, ScopeId};
use crate::{ErrorInfo, Status};

impl Reducer<'_> {
    pub(super) fn post(
        &mut self,
        _id: FrameId,
        post: &Post,
        scope: ScopeId,
        locals: Locals<'_>,
    ) -> Result<Value, Stop> {
        let to = self.eval_with(post.to, scope, locals)?;
        Err(ErrorInfo::new("NoMail", "mail", format!("there is no mail to {to:?}")).into())
    }

    pub(super) fn enter_mail(&mut self, id: FrameId, _wait: &Wait) -> Result<(), Stop> {
        self.end_with(id, Status::Succeeded, Value::list(Vec::new()), None);
        Ok(())
    }
}
