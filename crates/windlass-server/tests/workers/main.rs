//! Remote workers: leases, lease epochs, hand-over, labels, backpressure. Time is virtual, requests are real.

mod durable;
mod leases;
mod python;
mod queues;
mod restarts;
mod support;
