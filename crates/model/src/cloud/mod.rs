//! Claude on clouds: Amazon Bedrock and Google Vertex AI. The body is that of the Messages API, the address and the
//! signature are the cloud's.

pub(crate) mod aws;
pub(crate) mod aws_profile;
pub(crate) mod aws_sign;
pub(crate) mod frames;
pub(crate) mod google;
pub(crate) mod translate;
