pub fn replay(_: &crate::args::Global, _: &crate::args::Replay) -> Result<crate::failure::Exit, crate::failure::Failure> { Err(crate::failure::Failure::usage("soon")) }
