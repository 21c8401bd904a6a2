// A reference to a function object, which must outlive it: a parameter that needs no template.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace ferry {

template <class Signature> class function_ref;

template <class Result, class... Arguments> class function_ref<Result(Arguments...)> {
public:
    template <class Function>
    requires(!std::is_same_v<std::remove_cvref_t<Function>, function_ref>) function_ref(Function &&function)
    noexcept // NOLINT(google-explicit-constructor): stands for the function
        : call_([](const void *user, Arguments... given) -> Result {
              auto &called = *static_cast<std::remove_reference_t<Function> *>(const_cast<void *>(user));
              return called(std::forward<Arguments>(given)...);
          }),
          user_(std::addressof(function)) {}

    Result operator()(Arguments... given) const { return call_(user_, std::forward<Arguments>(given)...); }

private:
    Result (*call_)(const void *user, Arguments...);
    const void *user_;
};

} // namespace ferry
