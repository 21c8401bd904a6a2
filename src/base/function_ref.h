// A non-owning reference to a callable, for parameters that do not need a template. The callable must outlive it.
#pragma once

#include <memory>
#include <utility>

namespace ferry {

template <class Signature> class function_ref;

template <class Result, class... Arguments> class function_ref<Result(Arguments...)> {
public:
    template <class Function>
    function_ref(const Function &function) noexcept // NOLINT(google-explicit-constructor): callables convert implicitly
        : call_([](const void *called, Arguments... given) -> Result {
              return (*static_cast<const Function *>(called))(std::forward<Arguments>(given)...);
          }),
          called_(std::addressof(function)) {}

    Result operator()(Arguments... given) const { return call_(called_, std::forward<Arguments>(given)...); }

private:
    Result (*call_)(const void *called, Arguments... given);
    const void *called_;
};

} // namespace ferry
