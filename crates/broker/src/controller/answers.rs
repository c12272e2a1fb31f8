//! Responses that must be taken back because the records could not be made durable.
//!
//! What was refused stays refused; what was granted becomes an error.

use wire::messages::{
    AlterClientQuotasResponse, AlterConfigsResponse, AlterPartitionReassignmentsResponse,
    AlterUserScramCredentialsResponse, CreateAclsResponse, CreatePartitionsResponse,
    CreateTopicsResponse, DeleteAclsResponse, DeleteTopicsResponse,
    IncrementalAlterConfigsResponse, UnregisterBrokerResponse, UpdateFeaturesResponse,
};
use wire::types::{ErrorCode, Uuid};

/// A response with an error code for each part of the request.
pub(crate) trait ControllerResponse {
    /// Turns every success into `code`.
    fn fail(&mut self, code: ErrorCode);
}

impl ControllerResponse for CreateTopicsResponse {
    fn fail(&mut self, code: ErrorCode) {
        for topic in self.topics.iter_mut().filter(|topic| topic.error_code == 0) {
            topic.error_code = code.code();
            topic.topic_id = Uuid::nil();
            topic.num_partitions = -1;
            topic.replication_factor = -1;
            topic.configs = Some(Vec::new());
        }
    }
}

impl ControllerResponse for DeleteAclsResponse {
    fn fail(&mut self, code: ErrorCode) {
        let filters = self.filter_results.iter_mut();
        for filter in filters.filter(|filter| filter.error_code == 0) {
            filter.error_code = code.code();
            filter.matching_acls.clear();
        }
    }
}

impl ControllerResponse for AlterPartitionReassignmentsResponse {
    fn fail(&mut self, code: ErrorCode) {
        let partitions = self
            .responses
            .iter_mut()
            .flat_map(|topic| &mut topic.partitions);
        for partition in partitions.filter(|partition| partition.error_code == 0) {
            partition.error_code = code.code();
        }
    }
}

impl ControllerResponse for UpdateFeaturesResponse {
    fn fail(&mut self, code: ErrorCode) {
        if self.error_code == 0 {
            self.error_code = code.code();
            self.results.clear();
        }
    }
}

impl ControllerResponse for UnregisterBrokerResponse {
    fn fail(&mut self, code: ErrorCode) {
        if self.error_code == 0 {
            self.error_code = code.code();
        }
    }
}

macro_rules! answers {
    ($($response:ident.$parts:ident;)*) => {$(
        impl ControllerResponse for $response {
            fn fail(&mut self, code: ErrorCode) {
                for part in self.$parts.iter_mut().filter(|part| part.error_code == 0) {
                    part.error_code = code.code();
                }
            }
        }
    )*};
}
answers! {
    DeleteTopicsResponse.responses;
    AlterClientQuotasResponse.entries;
    CreateAclsResponse.results;
    CreatePartitionsResponse.results;
    AlterConfigsResponse.responses;
    AlterUserScramCredentialsResponse.results;
    IncrementalAlterConfigsResponse.responses;
}
