pub fn turns(_: &crate::args::Global, _: &crate::args::Turns) -> Result<crate::failure::Exit, crate::failure::Failure> { Err(crate::failure::Failure::usage("soon")) }
