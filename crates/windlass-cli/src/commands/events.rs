pub fn events(_: &crate::args::Global, _: &crate::args::Events) -> Result<crate::failure::Exit, crate::failure::Failure> { Err(crate::failure::Failure::usage("soon")) }
