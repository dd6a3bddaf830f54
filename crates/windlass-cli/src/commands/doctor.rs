pub fn doctor(_: &crate::args::Global) -> Result<crate::failure::Exit, crate::failure::Failure> { Err(crate::failure::Failure::usage("soon")) }
